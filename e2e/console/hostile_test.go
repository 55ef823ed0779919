package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/jobs"
)

// These strings run as script if a page contains them unescaped, or break out of an attribute, a text field,
// a script or a comment.
const (
	scriptTag = `<script>hacked()</script>`
	breakOut  = `"'></title><img/src=x/onerror=hacked()>`
	scriptURL = `javascript:hacked()`
	svgBody   = `<svg xmlns="http://www.w3.org/2000/svg" onload="hacked()"><script>hacked()</script></svg>`
	htmlBody  = `</pre></code></textarea></title><script>hacked()</script><img src=x onerror=hacked()><iframe srcdoc="<script>parent.hacked()</script>">`
	jsonBody  = `{"</script><script>hacked()</script>":"-->\u003cscript>hacked()</script>","url":"javascript:hacked()","n":12345678901234567890.00}`
	terminal  = "\u202e\u2066right to left\u2069 \x1b[31mred\x07"
)

// hostileEntities returns entities with script in every field that publishers can set.
func hostileEntities() []*feed.Entity {
	header := []feed.Field{
		{Name: "X-Note", Value: htmlBody}, {Name: "Link", Value: "<" + scriptURL + ">; rel=" + breakOut}, {Name: "Refresh", Value: "0; url=" + scriptURL},
		{Name: "Content-Security-Policy", Value: "default-src *"}, {Name: "X-'onerror'hacked", Value: breakOut},
	}
	return []*feed.Entity{
		{ContentID: scriptTag, Operation: feed.Put, ContentType: "text/html", ContentLocation: scriptURL, Header: header, Body: []byte(htmlBody)},
		{ContentID: breakOut, Operation: feed.Put, ContentType: `application/json; a="` + scriptTag + `"`, ContentLocation: breakOut, Header: header, Body: []byte(jsonBody)},
		{ContentID: "//elsewhere.example/" + breakOut, Operation: feed.Patch, ContentType: "image/svg+xml", ContentLocation: scriptTag, Body: []byte(svgBody)},
		{ContentID: "text", Operation: feed.Put, ContentType: "text/plain", ContentLocation: scriptTag, Body: []byte(terminal + htmlBody)},
		{ContentID: "binary", Operation: feed.Put, ContentType: "application/octet-stream", ContentLocation: scriptTag, Body: append([]byte{0, 0xff, 0xfe}, htmlBody...)},
		{ContentID: "deleted", Operation: feed.Delete, ContentType: "text/html", ContentLocation: scriptTag, Body: []byte(htmlBody)},
	}
}

// hostileJob is the name of a job. A real scheduler would reject it.
const hostileJob = "<b>/" + breakOut

// TestHostile opens all pages of a console whose names, header fields, bodies and errors are script. All
// pages show the script as text: none of it runs, and none would run even without the policy.
func TestHostile(t *testing.T) {
	s := newSite(t, func(c *console.Config) {
		c.StoreName, c.FeedsURL, c.JobsName = "file:"+scriptTag, scriptURL, scriptTag
	})
	s.jobs.add(hostileJob, scriptTag, scriptURL, htmlBody, jobs.Failed, time.Hour, htmlBody, nil)
	job := s.jobs.jobs[len(s.jobs.jobs)-1]
	job.LastError = &jobs.RunError{Time: s.jobs.now, Message: htmlBody, Hint: scriptTag}
	job.Node, job.Command, job.Document.Labels = scriptTag, breakOut, map[string]string{breakOut: scriptTag}
	entities := hostileEntities()
	(&demo{t: t, store: s.store}).publish("hostile", 100, []moment{{time.Now(), entities}})
	if run := s.post(t, "/verify", url.Values{"feed": {"hostile"}}); run != "/run?id=1" {
		t.Fatalf("the first action has the page %s", run)
	}

	_, newest, _, err := s.feeds.Look(t.Context(), "hostile")
	if err != nil {
		t.Fatal(err)
	}
	reader := follower{feed: "hostile", name: breakOut, agent: htmlBody, address: "192.0.2.1:1", user: scriptTag, behind: func(time.Duration) time.Duration { return time.Hour }}
	reader.request(s.readers, newest, newest.Last, 0)
	id := s.readers.Of("hostile")[0].ID

	b := s.open(t, desktop)
	for _, path := range s.console.Paths() {
		for _, url := range []string{address(path, "hostile", hostileJob, id), address(path, breakOut, scriptTag, breakOut)} { // nothing exists with the names in the second URL
			b.visit(url)
			b.expect(url, append(b.findings(), b.foreign()...))
		}
	}
	for i, e := range entities {
		for _, form := range []string{"json", "text", "hex"} {
			url := fmt.Sprintf("/entity?feed=hostile&n=1&i=%d&as=%s", i, form)
			b.visit(url)
			b.shows(e.ContentID)
			b.expect(url, append(b.findings(), b.foreign()...))
		}
	}
	b.visit("/entity?feed=hostile&n=1&i=0&as=text")
	b.shows(htmlBody)
	b.visit(address("/job", "", hostileJob, ""))
	b.shows(scriptTag)
	b.visit(address("/reader", "", "", id))
	b.shows(breakOut)
}

// foreign returns the elements of the page that the console did not write or that lead to another origin.
func (b *tab) foreign() []string {
	b.t.Helper()
	return evaluate[[]string](b, `[...document.querySelectorAll("*")].filter(e =>
		[...e.attributes].some(a => /^on/i.test(a.name) || /^\s*javascript:/i.test(a.value)) ||
		/^(img|iframe|object|embed|base|style)$/.test(e.localName) ||
		e.localName === "script" && !/^assets\//.test(e.getAttribute("src")) ||
		e.hasAttribute("href") && new URL(e.getAttribute("href"), document.baseURI).origin !== location.origin,
	).map(e => "foreign element " + e.outerHTML.slice(0, 200))`)
}

// shows fails the test unless the page shows the text literally.
func (b *tab) shows(text string) {
	b.t.Helper()
	if !strings.Contains(b.text(), text) {
		b.t.Errorf("the page does not show %q, but:\n%s", text, b.text())
	}
}
