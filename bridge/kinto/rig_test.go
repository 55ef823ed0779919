package kinto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/bridge/internal/bridgetest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// rig is a collection, a store, and bridges between them.
type rig struct {
	t     *testing.T
	url   string // of the collection
	store storage.Store
	dir   string
	// configure changes the configuration of each bridge that is opened; client configures its
	// client.
	configure func(*Config)
	client    kinto.Config
}

func newRig(t *testing.T) *rig {
	return newRigOf(t, kintotest.Start(t, kintotest.Memory).NewCollection(t))
}

func newRigOf(t *testing.T, url string) *rig {
	return &rig{t: t, url: url, store: memory.New(), dir: t.TempDir(), configure: func(*Config) {}}
}

const testFeed = "records"

// open opens a bridge that never sleeps.
func (r *rig) open(store storage.Store) *Bridge {
	r.t.Helper()
	r.client.URL = r.url
	r.client.Attempts = 1
	r.client.Auth = kinto.Auth{Username: kintotest.User, Password: kintotest.Password}
	client := r.client
	if client.HTTP == nil { // the server has a limit for connections
		client.HTTP = http.DefaultClient
	}
	source, err := kinto.Open(client)
	if err != nil {
		r.t.Fatal(err)
	}
	c := Config{
		Source: source, Store: store, Feed: testFeed, Index: filepath.Join(r.dir, "index"),
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

// put writes a record. Content is the members of a JSON object.
func (r *rig) put(id, content string) {
	r.t.Helper()
	kintotest.Send(r.t, http.MethodPut, r.url+"/records/"+id, `{"data":{`+content+`}}`)
}

func (r *rig) delete(id string) {
	r.t.Helper()
	kintotest.Send(r.t, http.MethodDelete, r.url+"/records/"+id, "")
}

// fill writes records in batches.
func (r *rig) fill(from, to int) {
	r.t.Helper()
	for from < to {
		var requests []map[string]any
		for ; from < to && len(requests) < 25; from++ {
			requests = append(requests, map[string]any{
				"method": "PUT", "path": r.path() + fmt.Sprint("/records/r", from), "body": map[string]any{"data": map[string]any{"n": from}},
			})
		}
		body, err := json.Marshal(map[string]any{"requests": requests})
		if err != nil {
			r.t.Fatal(err)
		}
		kintotest.Send(r.t, http.MethodPost, r.root()+"/batch", string(body))
	}
}

// root returns the URL of the server.
func (r *rig) root() string {
	root, _, _ := strings.Cut(r.url, "/buckets/")
	return root
}

func readerOf(text string) io.Reader { return strings.NewReader(text) }

// path returns the path of the collection below the server's root.
func (r *rig) path() string {
	a, err := kinto.ParseURL(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	return "/buckets/" + a.Bucket + "/collections/" + a.Collection
}

// events reads the feed.
func (r *rig) events() []bridgetest.Event { return bridgetest.Events(r.t, r.store, testFeed) }

// fold returns the records that result from applying the feed, by id.
func (r *rig) fold() map[string]string { return r.foldOf(testFeed) }

func (r *rig) foldOf(feedName string) map[string]string {
	r.t.Helper()
	seen, live := map[string]bool{}, map[string]string{}
	for _, e := range bridgetest.Events(r.t, r.store, feedName) {
		if seen[e.ContentID] {
			r.t.Errorf("%s is in the feed twice", e.ContentID)
		}
		seen[e.ContentID] = true
		if e.Op == feed.Delete {
			delete(live, e.ID)
		} else {
			live[e.ID] = e.Body
		}
	}
	return live
}

// listed returns the records of the collection, by id.
func (r *rig) listed() map[string]string {
	r.t.Helper()
	return r.listedTo(kinto.Auth{Username: kintotest.User, Password: kintotest.Password})
}

// listedTo returns the records of the collection that a user may read, by id.
func (r *rig) listedTo(user kinto.Auth) map[string]string {
	r.t.Helper()
	all := map[string]string{}
	c, err := kinto.Open(kinto.Config{URL: r.url, Auth: user})
	if err != nil {
		r.t.Fatal(err)
	}
	q := kinto.Query{Sort: kinto.OldestFirst}
	for {
		page, err := c.List(r.t.Context(), q, func(row kinto.Row) error {
			all[row.ID] = string(row.Data)
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if q.Token = page.Next; q.Token == "" {
			return all
		}
	}
}

// check compares the feed with the collection.
func (r *rig) check() {
	r.t.Helper()
	want, got := r.listed(), r.fold()
	for id, body := range want {
		if got[id] != body {
			r.t.Errorf("%s is %q in the feed, %q in the collection", id, got[id], body)
		}
		delete(got, id)
	}
	for id := range got {
		r.t.Errorf("%s is in the feed but not in the collection", id)
	}
	bridgetest.Verify(r.t, r.store, testFeed)
}
