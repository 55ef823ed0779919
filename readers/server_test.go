package readers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish appends n entities to the feed "f", two on each page.
func publish(t *testing.T, store storage.Store, n int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, "f", producer.Config{MaxPageEntities: 2})
	check(t, err)
	defer func() { check(t, f.Close()) }()
	for range n {
		_, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("hello")})
		check(t, err)
		time.Sleep(10 * time.Second)
	}
}

// A slowSink commits each entity only when the test allows it.
type slowSink struct {
	at  feed.Position
	may chan struct{}
}

func (s *slowSink) Position(context.Context) (feed.Position, error) { return s.at, nil }
func (s *slowSink) Begin(context.Context) (consumer.Batch, error)   { return s, nil }
func (s *slowSink) Close() error                                    { return nil }
func (s *slowSink) Apply(context.Context, *feed.Entity) error       { return nil }
func (s *slowSink) Rollback(context.Context) error                  { return nil }
func (s *slowSink) Commit(ctx context.Context, at feed.Position) error {
	select {
	case <-s.may:
		s.at = at
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestServer: a consumer and a stranger read from a real server, and the tracker reports the
// right positions and lags for both.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, 6)
		s, err := server.New(store, server.Config{})
		check(t, err)
		tracker := readers.New(readers.Config{})
		web := &http.Client{Transport: inprocess.Transport(tracker.Handler(s))}
		const url = "http://feeds.test/feeds/f"

		sink := &slowSink{may: make(chan struct{}, 100)}
		client, err := consumer.New(consumer.Config{HTTPClient: web, Follow: true, Announce: "stock"})
		check(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := (&consumer.Job{Client: client, URL: url, Sink: sink, BatchEntities: 1}).Run(ctx)
			ended <- err
		}()
		for range 6 {
			sink.may <- struct{}{}
			synctest.Wait()
		}
		got := tracker.Of("f")
		if len(got) != 1 || got[0].Waiting != 1 || got[0].Position.Page != 3 || got[0].Position.ContentID != sink.at.ContentID || got[0].Lag != (readers.Lag{Known: true}) {
			t.Errorf("the consumer that has caught up is %+v", got)
		}

		publish(t, store, 4) // the consumer has read one of these entities, but not committed it
		response, err := web.Get(url)
		check(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		check(t, err)
		check(t, response.Body.Close())
		synctest.Wait()
		for _, r := range tracker.Of("f") {
			want := readers.Lag{Known: true}
			if r.Name != "" {
				want.Time, want.Pages = 40*time.Second, 2
			}
			if r.Lag != want {
				t.Errorf("reader %q has lag %+v, want %+v", r.Name, r.Lag, want)
			}
		}

		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		check(t, err)
		r.Header.Set("If-None-Match", response.Header.Get("ETag"))
		r.Header.Set("User-Agent", "curl")
		again, err := web.Do(r)
		check(t, err)
		check(t, again.Body.Close())
		synctest.Wait()
		for _, r := range tracker.Of("f") {
			if r.Agent == "curl" && (again.StatusCode != http.StatusNotModified || r.Position.Page != 5 || r.Lag != (readers.Lag{Known: true})) {
				t.Errorf("a stranger whose copy has not changed is %+v", r)
			}
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		check(t, s.Close(t.Context()))
	})
}

// TestBehind counts the entities after positions.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, 7) // on pages of 2, 2, 2 and 1 entities
		feeds := feedstore.New(store, feedstore.Config{})
		var ids []string
		var times []time.Time
		f, err := feeds.Feed("f")
		check(t, err)
		_, _, _, err = feeds.Look(t.Context(), "f")
		check(t, err)
		for n := range int64(4) {
			for h, err := range f.Headers(t.Context(), n+1) {
				check(t, err)
				at, err := feed.ParseTime(string(h.Get("Last-Modified")))
				check(t, err)
				ids, times = append(ids, string(h.Get("Content-ID"))), append(times, at)
			}
		}
		for name, test := range map[string]struct {
			p    readers.Position
			want readers.Count
		}{
			"the newest":     {readers.Position{Page: 4, Time: times[6], ContentID: ids[6]}, readers.Count{}},
			"before it":      {readers.Position{Page: 3, Time: times[5], ContentID: ids[5]}, readers.Count{Entities: 1}},
			"within a page":  {readers.Position{Page: 2, Time: times[2], ContentID: ids[2]}, readers.Count{Entities: 4}},
			"without a page": {readers.Position{Time: times[2], ContentID: ids[2]}, readers.Count{Entities: 4}},
			"a time":         {readers.Position{Page: 2, Time: times[2]}, readers.Count{Entities: 4}},
			"a whole page":   {readers.Position{Page: 1, Time: times[1]}, readers.Count{Entities: 5}},
			"pruned":         {readers.Position{Page: 2, Time: times[2], ContentID: "<gone>"}, readers.Count{Entities: 3, More: true}},
		} {
			got, err := readers.Behind(t.Context(), feeds, "f", test.p)
			if err != nil || got != test.want {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
			}
		}
		feeds.Close(t.Context())
	})
}

// This example creates a server whose readers are tracked.
func ExampleTracker() {
	s, err := server.New(memory.New(), server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(context.Background())
	tracker := readers.New(readers.Config{})
	handler := tracker.Handler(s) // in place of s
	_ = handler
	all, forgotten := tracker.List()
	fmt.Println(len(all), forgotten)
	// Output: 0 0
}
