package kinto

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestBucket: each selected collection has a feed of its own, also one that is created later; one that
// fails does not affect the others.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kintotest.NewHandler()
		f := &followed{rig: &rig{t: t}, fake: fake, net: memnet.New(t, fake)}
		bucket := "http://kinto/v1/buckets/b"
		f.do(http.MethodPut, bucket, "")
		for _, name := range []string{"blog-a", "blog-b", "blog-broken", "other"} {
			f.do(http.MethodPut, bucket+"/collections/"+name, "")
			f.do(http.MethodPut, bucket+"/collections/"+name+"/records/x", `{"data":{}}`)
		}
		fake.Inject(0, func(q *http.Request) bool { return strings.Contains(q.URL.Path, "broken") }, kintotest.Refuse(403, 121, "no"))
		server, err := kinto.OpenServer(kinto.Config{URL: "http://kinto/v1", HTTP: f.net.Client()})
		if err != nil {
			t.Fatal(err)
		}
		store, dir := memory.New(), t.TempDir()
		b := &Bucket{Server: server, Bucket: "b", Pattern: "blog-*", Configure: func(name string) Config {
			return Config{Store: store, Feed: name, Index: filepath.Join(dir, name), Producer: producer.Config{SpoolDir: dir}}
		}}
		if err := b.Run(t.Context()); !errors.Is(err, ErrRights) {
			t.Errorf("error is %v", err)
		}
		checkFeeds(t, store, map[string]bool{"blog-a": true, "blog-b": true, "blog-broken": false, "other": false})
		b.Follow = true
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		time.Sleep(time.Second)
		fake.Heal()
		f.do(http.MethodPut, bucket+"/collections/blog-c", "")
		f.do(http.MethodPut, bucket+"/collections/blog-c/records/x", `{"data":{}}`)
		time.Sleep(2 * time.Minute)
		checkFeeds(t, store, map[string]bool{"blog-a": true, "blog-b": true, "blog-c": true, "blog-broken": true, "other": false})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	})
}

func checkFeeds(t *testing.T, store storage.Store, want map[string]bool) {
	t.Helper()
	for name, exists := range want {
		if _, err := chain.NewReader(store, name).Newest(t.Context()); (err == nil) != exists {
			t.Errorf("feed %s: %v", name, err)
		}
	}
}
