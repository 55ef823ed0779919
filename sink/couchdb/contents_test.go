package couchdb_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
)

// contents opens a database for reading, through a transport if it is not nil.
func contents(t *testing.T, database string, through http.RoundTripper) *couchdb.Contents {
	t.Helper()
	c, err := couchdb.OpenContents(t.Context(), client.Config{HTTP: &http.Client{Transport: through}}, sink.Spec{Scheme: "couchdb", Path: database})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.Impatient()
	return c
}

func rows(t *testing.T, c *couchdb.Contents) (all []sink.Row, err error) {
	for row, err := range c.Rows(t.Context(), "", "") {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// TestContents: rows are the documents that a sink wrote, in any form, and no others.
func TestContents(t *testing.T) {
	for _, database := range []string{couchtest.NewDB(t), couchtest.NewFake(t).NewDB(t)} {
		if _, err := couchdb.OpenContents(t.Context(), client.Config{}, sink.Spec{Scheme: "couchdb", Path: database}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no consumer: %v, want ErrNotExist", err)
		}
		k := open(t, database, nil)
		large := strings.Repeat("x", 2<<20)
		mustWrite(t, k, put(1, "members", `{"a":1}`), put(2, "_both", `{"n":1.50}`), entity(3, feed.Put, "\xff", "text/plain", "text"),
			entity(4, feed.Put, "large", "text/plain", large), put(5, "gone", `{}`), entity(6, feed.Delete, "gone", "", ""),
			put(7, strings.Repeat("ü", 2000), `{}`))
		for id, doc := range map[string]string{
			"_design/d": `{"views":{}}`, "plain": `{"n":1}`, "string": `{"feedctl":"x"}`, "nil": `{"feedctl":null}`,
			"moved": `{"feedctl":{"contentId":"<8@example.com>","key":"elsewhere"}}`,
			"early": `{"feedctl":{"content_id":"<9@example.com>","content_type":"text/plain"}}`,
		} {
			couchtest.Send(t, http.MethodPut, database+"/"+client.DocPath(id), doc)
		}
		c := contents(t, database, nil)
		found, err := rows(t, c)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range found {
			n, _, _ := strings.Cut(strings.TrimPrefix(row.ContentID, "<"), "@")
			got = append(got, n+" "+strconv.Quote(row.Key[:min(len(row.Key), 8)]))
			if row.Version == "" || row.Sum != (sink.Row{}).Sum {
				t.Errorf("row is %+v", row)
			}
		}
		slices.Sort(got)
		want := []string{`1 "members"`, `2 "_both"`, `3 "\xff"`, `4 "large"`, `7 "üüüü"`, `9 "early"`}
		if !slices.Equal(got, want) {
			t.Errorf("rows are %q, want %q", got, want)
		}
		if at := c.Position(); at.ContentID != "<7@example.com>" {
			t.Errorf("position is %+v", at)
		}
	}
}

// TestContentsShared: other consumers are noticed if the server reveals them.
func TestContentsShared(t *testing.T) {
	database := couchtest.NewFake(t).NewDB(t)
	mustWrite(t, open(t, database, nil), put(1, "a", `{}`), put(2, "b", `{}`)) // with a log
	if about := contents(t, database, nil).About(); about.Shared || len(about.Remarks) != 2 {
		t.Errorf("alone: %+v", about)
	}
	couchtest.Send(t, http.MethodPut, database+"/_local/feedctl-sink-feedctl-log-other", `{"position":{}}`)
	if about := contents(t, database, nil).About(); !about.Shared {
		t.Errorf("with another: %+v", about)
	}
	// PouchDB Server does not list these documents.
	database = couchtest.NewDB(t)
	mustWrite(t, open(t, database, nil), put(1, "a", `{}`))
	if about := contents(t, database, nil).About(); about.Shared || len(about.Remarks) != 3 {
		t.Errorf("unknown: %+v", about)
	}
}

// TestContentsCut: a page that is cut off is requested again.
func TestContentsCut(t *testing.T) {
	database := couchtest.NewFake(t).NewDB(t)
	mustWrite(t, open(t, database, nil), put(1, "a", `{}`), put(2, "b", `{}`))
	cuts := 0
	c := contents(t, database, transport(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, "/_changes") && cuts < 3 {
			cuts++
			response.Body = http.MaxBytesReader(nil, response.Body, 100)
		}
		return response, err
	}))
	if found, err := rows(t, c); err != nil || len(found) != 2 || cuts != 3 {
		t.Errorf("%v, %v after %d cuts", found, err, cuts)
	}
}

// TestContentsLies: it is an error if the server does not continue the list, or sends
// something else.
func TestContentsLies(t *testing.T) {
	database := couchtest.NewFake(t).NewDB(t)
	mustWrite(t, open(t, database, nil), put(1, "a", `{}`), put(2, "b", `{}`))
	target, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_changes") && answer != "" {
			_, _ = w.Write([]byte(answer))
			return
		}
		q := r.URL.Query()
		q.Del("since")
		r.URL.RawQuery = q.Encode()
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, answer = range []string{
		"", `[]`, `{"results":[{"seq":1,"doc":{"_id":"a"}}]}`, `{"results":{}}`, `{"results":[1],"last_seq":1}`,
		`{"results":[{"doc":{"_id":"` + strings.Repeat("x", 2<<20) + `"}}],"last_seq":1}`,
	} {
		if found, err := rows(t, contents(t, server.URL+target.Path, nil)); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%.40q: %v, %v, want ErrMalformed", answer, found, err)
		}
	}
}
