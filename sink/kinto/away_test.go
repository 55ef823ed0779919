package kinto_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestServerAway follows a feed while the server fails for longer than the sink waits.
func TestServerAway(t *testing.T) {
	t.Parallel()
	store := memory.New()
	defer store.Close()
	source, err := producer.Open(t.Context(), store, "things", producer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := source.Publish(t.Context(), put(1, "a", `{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	pages := fromstore.New(store, fromstore.Config{})
	defer pages.Close()
	reader, err := consumer.New(consumer.Config{Source: pages, Follow: true, Retry: consumer.RetryConfig{Min: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	k := open(t, url, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := 0
	job := consumer.Job{Client: reader, URL: pages.Feed("things"), Sink: k, Progress: func(p consumer.Progress) {
		if p.Entities == 2 {
			cancel()
			return
		}
		f.Inject(0, httpfault.On("", ""), func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
			if failed++; failed == 10 {
				f.Heal()
			}
			kintotest.Refuse(503, 201, "later")(w, r, healthy)
		})
		if _, err := source.Publish(ctx, put(2, "b", `{"n":2}`)); err != nil {
			t.Error(err)
		}
	}}
	if stats, err := job.Run(ctx); !errors.Is(err, context.Canceled) || stats.Restarts == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	checkListing(t, url, map[string]string{"a": `{"n":1}`, "b": `{"n":2}`})
}
