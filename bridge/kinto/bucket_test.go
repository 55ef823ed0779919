package kinto

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// buckets has the bucket of a fake server in fake time, and a store for the feeds of its collections.
type buckets struct {
	*followed
	store storage.Store
	root  string // URL of the server
	gone  OnGone
}

// inBucket runs a test with collections that have a record each.
func inBucket(t *testing.T, names []string, test func(t *testing.T, f *buckets)) {
	synctest.Test(t, func(t *testing.T) {
		fake := kintotest.NewHandler()
		f := &buckets{&followed{rig: &rig{t: t, dir: t.TempDir()}, fake: fake, net: memnet.New(t, fake)}, memory.New(), "http://kinto/v1", Stop}
		f.do(http.MethodPut, f.root+"/buckets/b", "")
		for _, name := range names {
			f.create(name)
		}
		test(t, f)
	})
}

func (f *buckets) collection(name string) string { return f.root + "/buckets/b/collections/" + name }

// create creates a collection with a record.
func (f *buckets) create(name string) {
	f.do(http.MethodPut, f.collection(name), "")
	f.do(http.MethodPut, f.collection(name)+"/records/x", `{"data":{}}`)
}

// bucket returns a bridge of the collections that a pattern selects.
func (f *buckets) bucket(pattern string) *Bucket {
	server, err := kinto.OpenServer(kinto.Config{URL: f.root, HTTP: f.net.Client()})
	if err != nil {
		f.t.Fatal(err)
	}
	return &Bucket{Server: server, Bucket: "b", Patterns: []string{pattern}, Store: f.store, Feeds: "k-*", Job: func(_, feed string) *Job {
		return &Job{Config: Config{Index: filepath.Join(f.dir, feed), OnGone: f.gone, Producer: producer.Config{SpoolDir: f.dir}}}
	}}
}

// start follows a bucket until stop is called, which returns its error.
func (b *Bucket) start(ctx context.Context) (stop func() error) {
	b.Follow = true
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// has checks which feeds exist, and how many records each of them has.
func (f *buckets) has(want map[string]int) {
	f.t.Helper()
	got := map[string]int{}
	for feed, err := range chain.Feeds(f.t.Context(), f.store, "") {
		if err != nil {
			f.t.Fatal(err)
		}
		got[feed] = len((&rig{t: f.t, store: f.store}).foldOf(feed))
	}
	if !maps.Equal(got, want) {
		f.t.Errorf("feeds have %v, want %v", got, want)
	}
}

// TestBucket: each selected collection has its own feed, even if it is created later; a collection that
// fails does not affect the others.
func TestBucket(t *testing.T) {
	inBucket(t, []string{"blog-a", "blog-b", "blog-broken", "other"}, func(t *testing.T, f *buckets) {
		f.fake.Inject(0, func(q *http.Request) bool { return strings.Contains(q.URL.Path, "broken") }, kintotest.Refuse(403, 121, "no"))
		b := f.bucket("blog-*")
		err := b.Run(t.Context())
		if e, ok := errors.AsType[*BucketError](err); !ok || len(e.Failed) != 1 || e.Of != 3 || !errors.Is(err, ErrRights) {
			t.Errorf("error is %v", err)
		}
		f.has(map[string]int{"k-blog-a": 1, "k-blog-b": 1})
		if p := b.Progress(); p.Published != 2 {
			t.Errorf("%d entities published", p.Published)
		}
		for _, c := range b.Collected() {
			if (c.Err != nil) != (c.Collection == "blog-broken") || c.Feed != "k-"+c.Collection {
				t.Errorf("%+v", c)
			}
		}
		b = f.bucket("blog-*")
		stop := b.start(t.Context())
		time.Sleep(time.Second)
		f.fake.Heal()
		f.create("blog-c")
		time.Sleep(2 * time.Minute)
		f.has(map[string]int{"k-blog-a": 1, "k-blog-b": 1, "k-blog-c": 1, "k-blog-broken": 1})
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		if p := b.Progress(); p.Published != 2 || p.LastPoll.IsZero() {
			t.Errorf("%+v", p)
		}
	})
}

// TestBucketFirstFill: with --follow, a few collections are filled at a time. Collections that wait for the
// server let others begin.
func TestBucketFirstFill(t *testing.T) {
	var names []string
	want := map[string]int{}
	for i := range 12 {
		names = append(names, fmt.Sprintf("c%02d", i))
		want["k-"+names[i]] = 1
	}
	inBucket(t, names, func(t *testing.T, f *buckets) {
		arrived, answered := make(chan struct{}, len(names)), make(chan struct{})
		f.fake.Inject(0, func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, "/records") }, kintotest.Hold(arrived, answered))
		b := f.bucket("*")
		b.AtOnce = 3
		stop := b.start(t.Context())
		time.Sleep(10 * time.Second)
		if len(arrived) != 3 {
			t.Errorf("%d collections are read at once, want 3", len(arrived))
		}
		f.fake.Heal()
		close(answered)
		time.Sleep(time.Second)
		f.has(want)
		_ = stop()

		f.store = memory.New()
		f.fake.Inject(0, func(q *http.Request) bool { return strings.Contains(q.URL.Path, "/c0") }, kintotest.Refuse(503, 201, "later"))
		stop = f.bucket("*").start(t.Context())
		time.Sleep(10 * time.Minute)
		f.has(map[string]int{"k-c10": 1, "k-c11": 1})
		_ = stop()
	})
}

// TestBucketPositions: the collection with the positions of sinks is published only if a pattern names it.
func TestBucketPositions(t *testing.T) {
	inBucket(t, []string{"a", positionsName}, func(t *testing.T, f *buckets) {
		b := f.bucket("*")
		for _, patterns := range [][]string{nil, {"*"}, {"a", "feedctl-*"}} {
			b.Patterns = patterns
			if err := b.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.has(map[string]int{"k-a": 1})
		}
		b.Patterns = []string{positionsName}
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.has(map[string]int{"k-a": 1, "k-" + positionsName: 1})
	})
}

// TestBucketGone: a collection that is gone is treated as OnGone says, whether it was deleted before the
// run or during it, and is read again when it exists again.
func TestBucketGone(t *testing.T) {
	inBucket(t, []string{"before", "during", "stays"}, func(t *testing.T, f *buckets) {
		if err := f.bucket("*").Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.do(http.MethodDelete, f.collection("before"), "")
		if err := f.bucket("*").Run(t.Context()); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "1 of 3 collections") {
			t.Errorf("error is %v", err)
		}
		if err := f.bucket("[d-z]*").Run(t.Context()); err != nil { // it is not selected
			t.Error(err)
		}
		b := f.bucket("*")
		stop := b.start(t.Context())
		time.Sleep(time.Second)
		f.do(http.MethodDelete, f.collection("during"), "")
		time.Sleep(5 * time.Minute)
		f.has(map[string]int{"k-before": 1, "k-during": 1, "k-stays": 1})
		f.net.Requests()
		time.Sleep(5 * time.Minute)
		if slices.ContainsFunc(f.net.Requests(), func(r string) bool { return strings.Contains(r, "/before") || strings.Contains(r, "/during") }) {
			t.Error("deleted collections are still read")
		}
		f.do(http.MethodPut, f.collection("during"), "") // with no record
		time.Sleep(2 * time.Minute)
		f.has(map[string]int{"k-before": 1, "k-during": 0, "k-stays": 1})
		_ = stop()

		f.gone = Delete
		if err := f.bucket("*").Run(t.Context()); err != nil {
			t.Error(err)
		}
		f.has(map[string]int{"k-before": 0, "k-during": 0, "k-stays": 1})
		stop = f.bucket("*").start(t.Context())
		time.Sleep(time.Second)
		f.do(http.MethodDelete, f.collection("stays"), "")
		time.Sleep(time.Minute)
		f.has(map[string]int{"k-before": 0, "k-during": 0, "k-stays": 0})
		f.create("before")
		time.Sleep(time.Minute)
		f.has(map[string]int{"k-before": 1, "k-during": 0, "k-stays": 0})
		_ = stop()
	})
}

// TestBucketDeleted: a bucket that is gone ends the bridge, unless the records are to be deleted.
func TestBucketDeleted(t *testing.T) {
	inBucket(t, []string{"a"}, func(t *testing.T, f *buckets) {
		b := f.bucket("*")
		stop := b.start(t.Context())
		time.Sleep(time.Second)
		f.do(http.MethodDelete, f.root+"/buckets/b", "")
		time.Sleep(3 * time.Minute)
		if err := stop(); !errors.Is(err, ErrGone) {
			t.Errorf("error is %v", err)
		}
		f.has(map[string]int{"k-a": 1})
		f.gone = Delete
		if err := f.bucket("*").Run(t.Context()); err != nil {
			t.Error(err)
		}
		f.has(map[string]int{"k-a": 0})
		f.do(http.MethodPut, f.root+"/buckets/b", "")
		f.create("a")
		stop = f.bucket("*").start(t.Context())
		time.Sleep(time.Second)
		f.has(map[string]int{"k-a": 1})
		f.do(http.MethodDelete, f.root+"/buckets/b", "")
		time.Sleep(3 * time.Minute)
		f.has(map[string]int{"k-a": 0})
		f.do(http.MethodPut, f.root+"/buckets/b", "")
		f.create("a")
		time.Sleep(3 * time.Minute)
		f.has(map[string]int{"k-a": 1})
		_ = stop()
		f.do(http.MethodDelete, f.root+"/buckets/b", "")
		f.store = memory.New()
		if err := f.bucket("*").Run(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestBucketForeign: a feed that has the name of a feed of the bucket, but another source, is left alone.
func TestBucketForeign(t *testing.T) {
	inBucket(t, []string{"a"}, func(t *testing.T, f *buckets) {
		if err := f.bucket("*").Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.do(http.MethodPut, f.root+"/buckets/other", "")
		f.gone = Delete
		b := f.bucket("*")
		b.Bucket = "other"
		if err := b.Run(t.Context()); err != nil {
			t.Error(err)
		}
		f.has(map[string]int{"k-a": 1})
		f.do(http.MethodPut, f.root+"/buckets/other/collections/a", "")
		b.Bucket = "other"
		if err := b.Run(t.Context()); !errors.Is(err, bridge.ErrForeign) {
			t.Errorf("error is %v", err)
		}
		f.has(map[string]int{"k-a": 1})
	})
}

// TestBucketUnavailable: if the server is unavailable, the bridge does not request every collection from
// it.
func TestBucketUnavailable(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	inBucket(t, names, func(t *testing.T, f *buckets) {
		b := f.bucket("*")
		f.fake.Inject(0, func(q *http.Request) bool { return strings.Contains(q.URL.Path, "/collections/") }, kintotest.Refuse(503, 201, "later"))
		err := b.Run(t.Context())
		if !kinto.Retryable(err) || !strings.Contains(err.Error(), "8 of 8 collections failed") {
			t.Errorf("error is %v", err)
		}
		read := 0
		for _, c := range b.Collected() {
			if c.Err != errUnread {
				read++
			}
		}
		if read == 0 || read > 4 {
			t.Errorf("%d collections were read", read)
		}
	})
}

// TestFeedNames: a pattern for the names of feeds has exactly one "*", which stands for the name of the
// collection.
func TestFeedNames(t *testing.T) {
	for _, names := range []FeedNames{"", "k", "k-*-*", "-*", "k/*"} {
		if names.Check() == nil {
			t.Errorf("%q is accepted", names)
		}
	}
	for names, feed := range map[FeedNames]string{"*": "a", "k-*": "k-a", "*-k": "a-k", "k-*-k": "k-a-k"} {
		name, ok := names.Collection(feed)
		if err := names.Check(); err != nil || names.Feed("a") != feed || !ok || name != "a" {
			t.Errorf("%q has the feed %q of %q: %v", names, names.Feed("a"), name, err)
		}
		if name, ok := names.Collection("other" + feed[1:]); ok && names != "*" && names != "*-k" {
			t.Errorf("%q has collection %q", names, name)
		}
	}
}
