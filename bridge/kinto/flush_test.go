package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage/memory"
)

// A gate is a transport that makes no requests while it is locked.
type gate struct{ sync.RWMutex }

func (g *gate) RoundTrip(q *http.Request) (*http.Response, error) {
	g.RLock()
	defer g.RUnlock()
	return http.DefaultTransport.RoundTrip(q)
}

// A follower is a bridge that follows a collection, and really pauses between polls.
type follower struct {
	*rig
	gate   gate
	cancel context.CancelFunc
	ended  chan error
}

func (r *rig) following() *follower {
	r.t.Helper()
	f := &follower{rig: r, ended: make(chan error, 1)}
	r.client.HTTP = &http.Client{Transport: &f.gate}
	configure := r.configure
	r.configure = func(c *Config) {
		configure(c)
		c.Follow, c.Interval = true, 10*time.Millisecond
	}
	b := r.open(r.store)
	r.client.HTTP, r.configure = nil, configure
	b.core.Sleep = backoff.Sleep
	ctx, cancel := context.WithCancel(r.t.Context())
	f.cancel = cancel
	go func() {
		_, err := b.Run(ctx)
		f.ended <- errors.Join(err, b.Close())
	}()
	return f
}

// between makes changes between two requests of the bridge.
func (f *follower) between(changes func()) {
	f.gate.Lock()
	defer f.gate.Unlock()
	changes()
}

// caughtUp waits until applying the whole feed results in these records.
func (f *follower) caughtUp(want map[string]string) {
	f.t.Helper()
	if err := f.wait(func() bool { return maps.Equal(f.fold(), want) }); err != nil {
		f.t.Fatalf("the bridge has ended; the feed results in %v, want %v: %v", f.fold(), want, err)
	}
}

// wait waits until a condition of the feed holds, or the bridge has ended. It returns the error of the bridge.
func (f *follower) wait(until func() bool) error {
	f.t.Helper()
	watch, err := f.store.(*memory.Store).Watch(f.t.Context(), "feeds/")
	if err != nil {
		f.t.Fatal(err)
	}
	for !until() {
		select {
		case <-watch:
		case err := <-f.ended:
			return err
		}
	}
	return nil
}

// stop ends the bridge.
func (f *follower) stop() {
	f.t.Helper()
	f.cancel()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		f.t.Error(err)
	}
}

// stops checks that the bridge ends with an error, and that no record was deleted from the feed.
func (f *follower) stops(reason error, records int) {
	f.t.Helper()
	err := f.wait(func() bool { return len(f.fold()) != records })
	if got := len(f.fold()); got != records || !errors.Is(err, reason) {
		f.t.Fatalf("the feed has %d records, want %d, and the error is %v, want %v", got, records, err, reason)
	}
}

// The method as returns a function that makes a bridge act as the given user.
func (r *rig) as(user kinto.Auth) func(*Config) {
	return func(c *Config) {
		r.t.Helper()
		client := r.client
		client.Auth, client.HTTP = user, cmp.Or(client.HTTP, http.DefaultClient)
		var err error
		if c.Source, err = kinto.Open(client); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) flush() {
	r.t.Helper()
	kintotest.Send(r.t, http.MethodPost, r.root()+"/__flush__", "")
}

// createBucket creates the bucket and the collection as NewCollection does.
func (r *rig) createBucket() {
	r.t.Helper()
	bucket, _, _ := strings.Cut(r.url, "/collections/")
	kintotest.Send(r.t, http.MethodPut, bucket, `{"permissions":{"write":["system.Everyone"]}}`)
	r.createCollection()
}

// TestFlushed: a server is emptied while a bridge follows a collection. Either the bridge ends and
// deletes nothing, or it deletes from the feed what the collection no longer has.
func TestFlushed(t *testing.T) {
	t.Parallel()
	for _, backend := range kintotest.Backends {
		// Only users who may read everything learn that a bucket does not exist.
		server := kintotest.StartOwn(t, backend, "collection_read_principals=system.Authenticated", "record_read_principals=system.Authenticated")
		for name, test := range map[string]struct {
			anonymous bool
			gone      OnGone
			again     func(*rig) // creates the collection before the next request of the bridge
			stops     error
		}{
			"gone":              {stops: ErrGone},
			"gone, no rights":   {anonymous: true, gone: Delete, stops: ErrRights},
			"gone, delete":      {gone: Delete},
			"created, empty":    {again: func(*rig) {}},
			"created, fewer":    {again: func(r *rig) { r.fill(0, 5) }},
			"created, others":   {again: func(r *rig) { r.fill(50, 90) }},
			"created, the same": {again: func(r *rig) { r.fill(0, 30) }},
		} {
			t.Run(fmt.Sprint(backend, "/", name), func(t *testing.T) {
				r := newRigOf(t, server.NewCollection(t))
				user := kinto.Auth{Username: kintotest.User, Password: kintotest.Password}
				if test.anonymous {
					user = kinto.Auth{}
				}
				r.configure = func(c *Config) {
					r.as(user)(c)
					c.OnGone = test.gone
				}
				r.fill(0, 30)
				f := r.following()
				f.caughtUp(r.listed())
				left := map[string]string{}
				f.between(func() {
					r.flush()
					if test.again != nil {
						r.createBucket()
						test.again(r)
						left = r.listed()
					}
				})
				if test.stops != nil {
					f.stops(test.stops, 30)
				} else {
					f.caughtUp(left)
					f.stop()
				}
				if test.again == nil {
					r.createBucket()
					r.fill(10, 20)
				}
				r.run()
				r.check()
			})
		}
	}
}
