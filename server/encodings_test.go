package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A gatedStore makes the first read of the body of a page wait for gate, and then fail if broken
// is set.
type gatedStore struct {
	storage.Store
	gate   chan struct{}
	broken error
	begun  atomic.Bool  // a body has been read
	read   atomic.Int64 // bytes of bodies
}

type gatedBody struct {
	io.ReadCloser
	store *gatedStore
}

func (s *gatedStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err == nil && strings.Contains(key, "/pages/") {
		o.Body = gatedBody{o.Body, s}
	}
	return o, err
}

func (b gatedBody) Read(p []byte) (int, error) {
	if b.store.begun.CompareAndSwap(false, true) {
		<-b.store.gate
		if b.store.broken != nil {
			return 0, b.store.broken
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.store.read.Add(int64(n))
	return n, err
}

// TestEncodedOnce: concurrent and later requests share one encoding, even if the first client disconnects.
func TestEncodedOnce(t *testing.T) {
	for _, coding := range []string{"gzip", "zstd"} {
		synctest.Test(t, func(t *testing.T) {
			store := &gatedStore{Store: memory.New(), gate: make(chan struct{})}
			publishLarge(t, store.Store, "large", 2)
			plain := inside(t, newServer(t, store.Store, server.Config{})).get(t, "/feeds/large/pages/1")
			c := inside(t, newServer(t, store, server.Config{MaxCoded: 1}))
			gone, leave := context.WithCancel(t.Context())
			first := make(chan struct{})
			go func() {
				defer close(first)
				r, err := http.NewRequestWithContext(gone, http.MethodGet, c.url+"/feeds/large/pages/1", nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Accept-Encoding", coding)
				if response, err := c.client.Do(r); err == nil {
					response.Body.Close()
				}
			}()
			synctest.Wait()
			answers := make(chan answer)
			for range 10 {
				go func() { answers <- c.get(t, "/feeds/large/pages/1", "Accept-Encoding: "+coding) }()
			}
			synctest.Wait()
			leave()
			synctest.Wait()
			close(store.gate)
			check := func(got answer) {
				t.Helper()
				if got.Header.Get("Content-Encoding") != coding || string(decode(t, coding, got.body)) != string(plain.body) {
					t.Errorf("%s: %s, header %v, %d bytes", coding, got.Status, got.Header, len(got.body))
				}
				if got.ContentLength != int64(len(got.body)) {
					t.Errorf("%s: Content-Length %d, the body has %d bytes", coding, got.ContentLength, len(got.body))
				}
			}
			for range 10 {
				check(<-answers)
			}
			<-first
			check(c.get(t, "/feeds/large/pages/1", "Accept-Encoding: "+coding))
			if n := store.read.Load(); n != int64(len(plain.body)) {
				t.Errorf("%s: %d bytes were read for a page of %d", coding, n, len(plain.body))
			}
		})
	}
}

// TestEncodingFails: if a request fails, the requests that wait for its encoding do not fail
// with it.
func TestEncodingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gatedStore{Store: memory.New(), gate: make(chan struct{}), broken: errors.New("disk on fire")}
		publishLarge(t, store.Store, "large", 2)
		plain := inside(t, newServer(t, store.Store, server.Config{})).get(t, "/feeds/large/pages/1")
		c := inside(t, newServer(t, store, server.Config{}))
		answers := make(chan answer)
		get := func() { answers <- c.get(t, "/feeds/large/pages/1", "Accept-Encoding: gzip") }
		for range 4 {
			go get()
			synctest.Wait()
		}
		close(store.gate)
		failed := 0
		for range 4 {
			if got := <-answers; got.StatusCode == http.StatusInternalServerError {
				failed++
			} else if string(decode(t, "gzip", got.body)) != string(plain.body) {
				t.Errorf("%s, %d bytes", got.Status, len(got.body))
			}
		}
		if failed != 1 {
			t.Errorf("%d of 4 requests failed, want only the one that read the page", failed)
		}
	})
}
