package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	sinksqlite "github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage/memory"
)

// objects holds the nodes and leaves of a digest, and counts how many are read.
type objects struct {
	m     map[digest.Hash][]byte
	reads int
	bytes int
}

func (o *objects) Put(_ context.Context, name digest.Hash, data []byte) error {
	o.m[name] = slices.Clone(data)
	return nil
}

func (o *objects) Get(_ context.Context, name digest.Hash) ([]byte, error) {
	o.reads++
	o.bytes += len(o.m[name])
	if o.m[name] == nil {
		return nil, errors.New("not found")
	}
	return o.m[name], nil
}

// A world is a feed in a store, and a copy of it in SQLite.
type world struct {
	t      testing.TB
	feed   *producer.Feed
	client *consumer.Client
	url    string
	path   string
	bodies map[string]string // what the feed has
}

func newWorld(t testing.TB) *world {
	t.Helper()
	store := memory.New()
	f, err := producer.Open(t.Context(), store, "zones", producer.Config{MaxPageEntities: 1000})
	if err != nil {
		t.Fatal(err)
	}
	source := fromstore.New(store, fromstore.Config{})
	client, err := consumer.New(consumer.Config{Source: source, MaxWhole: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); source.Close(); store.Close() })
	return &world{t: t, feed: f, client: client, url: source.Feed("zones"), path: filepath.Join(t.TempDir(), "zones.db"), bodies: map[string]string{}}
}

func key(i int) string { return fmt.Sprintf("key/%07d", i) }

// publish publishes n entities.
func (w *world) publish(n int) {
	w.t.Helper()
	var all []*feed.Entity
	for i := range n {
		all = append(all, w.put(key(i), fmt.Sprintf(`{"n":%d}`, i)))
	}
	w.send(all...)
}

func (w *world) put(key, body string) *feed.Entity {
	w.bodies[key] = body
	return &feed.Entity{Operation: feed.Put, ContentLocation: feed.EncodeKey(key), ContentType: "application/json", Body: []byte(body)}
}

func (w *world) remove(key string) *feed.Entity {
	delete(w.bodies, key)
	return &feed.Entity{Operation: feed.Delete, ContentLocation: feed.EncodeKey(key)}
}

func (w *world) send(all ...*feed.Entity) {
	w.t.Helper()
	for batch := range slices.Chunk(all, 1000) {
		if _, err := w.feed.Publish(w.t.Context(), batch...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// consume brings the copy up to date.
func (w *world) consume() {
	w.t.Helper()
	s, err := sinksqlite.Open(w.t.Context(), w.path, "zones")
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	job := consumer.Job{Client: w.client, URL: w.url, Sink: s}
	if _, err := job.Run(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// digest returns a digest of the feed as it is now.
func (w *world) digest() (*digest.Reader, *objects) {
	w.t.Helper()
	state := map[string]digest.Entry{}
	root := &digest.Root{}
	for e, err := range w.client.Entities(w.t.Context(), w.url, consumer.Beginning()) {
		if err != nil {
			w.t.Fatal(err)
		}
		root.Feed = snapshot.FeedPosition{URL: w.url, Page: e.Page, LastModified: e.LastModified, ContentID: e.ContentID}
		if e.Operation == feed.Delete {
			delete(state, e.Key())
			continue
		}
		var page int64
		fmt.Sscan(e.Page[strings.LastIndexByte(e.Page, '/')+1:], &page)
		state[e.Key()] = digest.Entry{Key: e.Key(), Sum: digest.SumOf(e.Key(), e.ContentType, []byte(w.bodies[e.Key()])), ContentID: e.ContentID, Page: page, Offset: e.Offset}
	}
	o := &objects{m: map[digest.Hash][]byte{}}
	tree, err := digest.Build(w.t.Context(), func(yield func(digest.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(state)) {
			if !yield(state[key], nil) {
				return
			}
		}
	}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	root.Tree = tree
	return &digest.Reader{Root: root, Objects: o}, o
}

// sql changes the copy as a user would.
func (w *world) sql(statement string, args ...any) {
	w.t.Helper()
	conn, err := sqlite.OpenConn(w.path, sqlite.OpenReadWrite)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = OFF", nil); err != nil {
		w.t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, statement, &sqlitex.ExecOptions{Args: args}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) config(d *digest.Reader) reconcile.Config {
	return reconcile.Config{Client: w.client, URL: w.url, Digest: d, Open: func(ctx context.Context) (reconcile.Contents, error) {
		return sinksqlite.OpenContents(ctx, sink.Spec{Scheme: "sqlite", Path: w.path, Params: map[string][]string{"table": {"zones"}}})
	}}
}

// lines collects what a comparison finds, without the reasons.
func lines(c *reconcile.Config) *[]string {
	all := &[]string{}
	c.Found = func(l reconcile.Line) error {
		*all = append(*all, fmt.Sprintf("%c %s", l.Kind, l.Key))
		return nil
	}
	return all
}

// run compares the copy and, with repair, repairs it.
func (w *world) run(c reconcile.Config, repair bool) (*reconcile.Report, error) {
	w.t.Helper()
	if repair {
		s, err := sinksqlite.Open(w.t.Context(), w.path, "zones")
		if err != nil {
			w.t.Fatal(err)
		}
		defer s.Close()
		c.Sink = s
	}
	return reconcile.Run(w.t.Context(), c)
}

// check fails the test unless the copy is equal to the feed.
func (w *world) check() {
	w.t.Helper()
	have := map[string]string{}
	conn, err := sqlite.OpenConn(w.path, sqlite.OpenReadOnly)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteTransient(conn, "SELECT key, body FROM zones", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		have[row.ColumnText(0)] = row.ColumnText(1)
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if !maps.Equal(have, w.bodies) {
		w.t.Errorf("the copy has %d rows that are not those of the feed, which has %d", len(have), len(w.bodies))
	}
}

// encodeNode encodes leaves as package digest does.
func encodeNode(leaves []digest.Child) []byte {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, c := range leaves {
		_ = lines.Encode(map[string]any{"from": feed.EncodeKey(c.From), "count": c.Count, "hash": c.Hash.String(), "object": c.Object.String()})
	}
	return b.Bytes()
}
