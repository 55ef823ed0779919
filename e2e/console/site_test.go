package console_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

// A site is a console with all its parts, for a store in memory that holds the feeds of a demo.
type site struct {
	store   storage.Store
	feeds   *feedstore.Reader
	jobs    *scheduler
	readers *readers.Tracker
	actions *actions
	console *console.Console
	origin  string
}

// newSite starts a console with the usual configuration as modified by change, which may be nil.
func newSite(t *testing.T, change func(*console.Config)) *site {
	t.Helper()
	store, end := memory.New(), time.Now().UTC()
	(&demo{t: t, store: store, end: end}).fill()
	requests := &console.Requests{}
	feeds := feedstore.NewLocal(observe.Wrap(store, requests.Observe), nil)
	t.Cleanup(func() { feeds.Close(t.Context()) })
	newest := make(map[string]*chain.Page)
	for _, f := range followers() {
		var err error
		if _, newest[f.feed], _, err = feeds.Look(t.Context(), f.feed); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{store: store, feeds: feeds, jobs: newScheduler(), readers: track(t, end, newest), actions: &actions{}}
	credentials := func(name string) []console.Credential {
		return console.Credentials([]server.Credential{{Username: name, Password: "secret"}})
	}
	config := console.Config{
		Store: store, Feeds: feeds, Requests: requests, Space: func() *console.Space { return &console.Space{Free: 61 << 30, Total: 100 << 30} },
		StoreName: "file:/srv/feeds", FeedsURL: "https://feeds.example",
		Readers: s.readers, Jobs: s.jobs, JobsName: "postgres:///jobs", Actions: s.actions, JobActions: s.actions,
		ReadAuth: credentials("reader"), WriteAuth: credentials("writer"),
	}
	if change != nil {
		change(&config)
	}
	var err error
	if s.console, err = console.New(config); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.console)
	t.Cleanup(func() {
		_ = s.console.Close(t.Context()) // ends event streams: web.Close would wait for them
		web.Close()
	})
	s.origin = web.URL
	return s
}

// authorization returns the Authorization field of a user who may act.
func authorization() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("writer:secret"))
}

// open opens a tab for a user who may act.
func (s *site) open(t *testing.T, v view) *tab {
	t.Helper()
	b := open(t, s.origin, v)
	b.do("sign in", call(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": authorization()}}))
	return b
}

// post sends a form, and returns the path of the page that the console shows next.
func (s *site) post(t *testing.T, path string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.origin+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST %s has status %d, want %d", path, response.StatusCode, http.StatusSeeOther)
	}
	return "/" + response.Header.Get("Location")
}
