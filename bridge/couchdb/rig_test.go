package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/internal/bridgetest"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// rig is a source, a store, and bridges between them.
type rig struct {
	t     *testing.T
	fake  *couchtest.Fake // nil if the source is another server
	url   string          // of the source
	store storage.Store
	dir   string
	// configure changes the configuration of each bridge that is opened.
	configure func(*Config)
	options   Options // of each bridge
}

func newRig(t *testing.T) *rig {
	fake := couchtest.NewFake(t)
	return &rig{t: t, fake: fake, url: fake.NewDB(t), store: memory.New(), dir: t.TempDir(), configure: func(*Config) {}}
}

// newRigOf returns a rig whose source is a database on a real server.
func newRigOf(t *testing.T, o Options) *rig {
	return &rig{t: t, url: couchtest.NewDB(t), store: memory.New(), dir: t.TempDir(), options: o, configure: func(*Config) {}}
}

const testFeed = "docs"

// open opens a bridge that never sleeps for long.
func (r *rig) open(store storage.Store) *Bridge {
	r.t.Helper()
	db, err := couchdb.Open(couchdb.Config{URL: r.url, MaxWhole: 2000, SpoolDir: r.dir})
	if err != nil {
		r.t.Fatal(err)
	}
	c := Config{
		Source: db, Store: store, Feed: testFeed, Index: filepath.Join(r.dir, "index"),
		Options:  r.options,
		Producer: producer.Config{SpoolDir: r.dir, MaxPageEntities: 50},
	}
	r.configure(&c)
	b, err := Open(r.t.Context(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	b.core.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return b
}

// tryRun runs a bridge once, over the given store.
func (r *rig) tryRun(store storage.Store) (Report, error) {
	r.t.Helper()
	b := r.open(store)
	report, err := b.Run(r.t.Context())
	return report, errors.Join(err, b.Close())
}

// run runs a bridge once, which must succeed.
func (r *rig) run() Report {
	r.t.Helper()
	report, err := r.tryRun(r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// do makes a request to the source and returns the body of the response.
func (r *rig) do(method, path, body string) string {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Close = true // otherwise the request could fail on a connection that the test cuts
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 400 {
		r.t.Fatalf("%s %s: %s: %s, %v", method, path, answer.Status, data, err)
	}
	return string(data)
}

// put writes a document and returns its revision. Content is a JSON object.
func (r *rig) put(id, content string) string {
	r.t.Helper()
	var result struct{ Rev string }
	if err := json.Unmarshal([]byte(r.do(http.MethodPut, "/"+couchdb.EscapeID(id), content)), &result); err != nil {
		r.t.Fatal(err)
	}
	return result.Rev
}

// graft writes a revision with the given ancestors (new_edits=false).
func (r *rig) graft(id string, deleted bool, content string, revs ...string) {
	r.t.Helper()
	start, ids := int64(0), []string{}
	for i, rev := range revs {
		generation, name := splitRev(rev)
		if i == 0 {
			start = generation
		}
		ids = append(ids, name)
	}
	history, err := json.Marshal(map[string]any{"start": start, "ids": ids})
	if err != nil {
		r.t.Fatal(err)
	}
	del := ""
	if deleted {
		del = `,"_deleted":true`
	}
	r.do(http.MethodPost, "/_bulk_docs", fmt.Sprintf(`{"new_edits":false,"docs":[{"_id":%q,"_rev":%q,"_revisions":%s%s,%s}]}`, id, revs[0], history, del, content))
}

// events reads the feed.
func (r *rig) events() []bridgetest.Event { return bridgetest.Events(r.t, r.store, testFeed) }

// pairs returns the entities of the feed as "id@rev", in order.
func (r *rig) pairs() (pairs []string) {
	r.t.Helper()
	for _, e := range r.events() {
		pairs = append(pairs, e.ID+"@"+e.Rev)
	}
	return pairs
}

// check compares the feed with the source: each revision is there once, the newest revision of each
// document is that of the source, byte for byte, and verify finds no violations. Documents with an id
// in except are ignored.
func (r *rig) check(except ...string) {
	r.t.Helper()
	seen := map[string]bool{}
	last := map[string]bridgetest.Event{}
	for _, e := range r.events() {
		if seen[e.ContentID] {
			r.t.Errorf("%s is in the feed twice", e.ContentID)
		}
		seen[e.ContentID] = true
		last[e.ID] = e
	}
	var source struct {
		Results []struct {
			ID      string
			Deleted bool
			Changes []struct{ Rev string }
		}
	}
	if err := json.Unmarshal([]byte(r.do(http.MethodGet, "/_changes", "")), &source); err != nil {
		r.t.Fatal(err)
	}
	skip := map[string]bool{}
	for _, id := range except {
		skip[id] = true
	}
	for _, row := range source.Results {
		if skip[row.ID] {
			delete(last, row.ID)
			continue
		}
		e, ok := last[row.ID]
		rev := row.Changes[0].Rev
		switch {
		case !ok:
			r.t.Errorf("%s@%s is not in the feed", row.ID, rev)
		case e.Rev != rev || row.Deleted != (e.Op == feed.Delete):
			r.t.Errorf("%s: the feed ends with %s of %s, the source has %s, deleted %v", row.ID, e.Op, e.Rev, rev, row.Deleted)
		case e.MediaType == mediaJSON && e.Body != "":
			if want := r.do(http.MethodGet, "/"+couchdb.EscapeID(row.ID)+"?"+r.query()+"rev="+rev, ""); e.Body != trimLine(want) {
				r.t.Errorf("%s@%s has the body\n%s, want\n%s", row.ID, rev, e.Body, want)
			}
		}
		delete(last, row.ID)
	}
	for id := range last {
		r.t.Errorf("%s is in the feed but not in the source", id)
	}
	r.verify()
}

// query returns the query with which a document is requested as the feed should have it.
func (r *rig) query() (query string) {
	if r.options.Revs {
		query += "revs=true&"
	}
	if r.options.Attachments == Inline {
		query += "attachments=true&"
	}
	return query
}

func (r *rig) verify() {
	r.t.Helper()
	bridgetest.Verify(r.t, r.store, testFeed)
}

func trimLine(s string) string { return string(bytes.TrimRight([]byte(s), "\n")) }

// quarantined returns the reasons in the quarantine, by document id.
func (r *rig) quarantined() map[string]string {
	r.t.Helper()
	reasons := map[string]string{}
	for thing, err := range bridge.List(r.t.Context(), r.store, testFeed) {
		if err != nil {
			r.t.Fatal(err)
		}
		reasons[thing.ID] = thing.Reason
	}
	return reasons
}
