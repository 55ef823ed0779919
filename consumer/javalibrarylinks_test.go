package consumer

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

// libraryLinks reads Link fields as the Java library does, as far as its verdicts show: one link for
// each field, whose relation must be exactly self, prev or next; other links are dropped.
func libraryLinks(fields []string) (links map[string]string, err error) {
	links = make(map[string]string)
	for _, field := range fields {
		target, params, _ := strings.Cut(field, ";")
		rel := ""
		for quoted := false; params != ""; {
			end := strings.IndexFunc(params, func(r rune) bool {
				quoted = quoted != (r == '"')
				return r == ';' && !quoted
			})
			param := params
			if params = ""; end >= 0 {
				param, params = param[:end], param[end+1:]
			}
			name, value, ok := strings.Cut(param, "=")
			if !ok {
				return nil, errors.New("parameter without a value")
			}
			if strings.TrimSpace(name) == "rel" {
				rel = strings.Trim(value, `"`)
			}
		}
		switch rel {
		case "self", "prev", "next":
			links[rel] = strings.TrimSuffix(strings.TrimPrefix(target, "<"), ">")
		}
	}
	if u, err := url.Parse(links["self"]); err != nil || u.Host != "feed.test" { // the library requests it
		return nil, errors.New("no self link that can be requested")
	}
	return links, nil
}

// TestJavaLibraryLinks: a reader that follows the rules of the library can read the links that feedctl
// writes, including those that are not in the specification.
func TestJavaLibraryLinks(t *testing.T) {
	var verdicts []verdict
	if err := json.Unmarshal(readRecording(t, "verdicts.json"), &verdicts); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, v := range verdicts {
		if !strings.HasPrefix(v.Name, "link ") {
			continue
		}
		var fields []string
		for _, h := range v.Headers {
			if h[0] == "Link" {
				fields = append(fields, strings.ReplaceAll(h[1], "HOST", "feed.test"))
			}
		}
		if _, err := libraryLinks(fields); (err == nil) != (v.Library == "accepts") {
			t.Errorf("%q: the library %s it, its rules here say %v", fields, v.Library, err)
		}
		checked++
	}
	if checked < 10 {
		t.Errorf("%d verdicts", checked)
	}
	links := feed.Links{
		Self: pageURL + "2", Prev: pageURL + "1", Next: pageURL + "3",
		First: pageURL + "1", Last: feedURL, Timegate: feedURL + "/at", Timemap: feedURL + "/index/0",
	}
	got, err := libraryLinks(links.Header())
	if diff := cmp.Diff(map[string]string{"self": links.Self, "prev": links.Prev, "next": links.Next}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
