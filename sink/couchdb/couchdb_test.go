package couchdb_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// urlVariable passes the prefix of the databases' URLs to child processes.
const urlVariable = "FEEDCTL_SINK_COUCHDB_TEST_URL"

// TestConformance makes a sample of the steps fail; TestConformanceFake makes all of them fail.
func TestConformance(t *testing.T) {
	o := options(t, couchtest.NewDB)
	o.Every = oneOf(5)
	sinktest.Run(t, o)
}

// TestConformanceFake uses a server that behaves like Apache CouchDB.
func TestConformanceFake(t *testing.T) {
	sinktest.Run(t, options(t, func(t testing.TB) string { return couchtest.NewFake(t).NewDB(t) }))
}

// options returns options with a database for each directory; the names of the databases begin with that of
// the one from newDB. A child process has the same databases as its parent. The steps that can fail are
// requests.
func options(t testing.TB, newDB func(testing.TB) string) sinktest.Options {
	begin := os.Getenv(urlVariable)
	parent := begin == ""
	if parent {
		begin = newDB(t) + "-"
		t.Setenv(urlVariable, begin)
	}
	var known sync.Map
	url := func(dir string) string {
		url := fmt.Sprintf("%s%x", begin, sha256.Sum224([]byte(dir)))
		if _, again := known.LoadOrStore(url, true); parent && !again {
			couchtest.DeleteAtEnd(t, url)
		}
		return url
	}
	return sinktest.Options{
		Open: func(ctx context.Context, dir string) (consumer.Sink, error) {
			return impatient(ctx, url(dir), 1, nil)
		},
		OpenFaulty: func(ctx context.Context, dir string, before func() error) (consumer.Sink, error) {
			return impatient(ctx, url(dir), 1, func(r *http.Request) (*http.Response, error) {
				if err := before(); err != nil {
					return nil, err
				}
				return http.DefaultTransport.RoundTrip(r)
			})
		},
		Read:  func(dir string) ([]sinktest.Record, error) { return read(url(dir)) },
		Kills: 100 / oneOf(4),
	}
}

// TestNew: a sink with the caller's client is opened by the first call of Position, with the errors
// of Open.
func TestNew(t *testing.T) {
	var requests atomic.Int64
	db, err := client.Open(client.Config{URL: couchtest.NewFake(t).NewDB(t), Attempts: 1, HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		requests.Add(1)
		return http.DefaultTransport.RoundTrip(r)
	})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := couchdb.New(db, "not a name"); !errors.Is(err, sink.ErrSpec) {
		t.Errorf("got %v, want ErrSpec", err)
	}
	first, err := couchdb.New(db, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := couchdb.New(db, couchdb.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Begin(t.Context()); err == nil || requests.Load() != 0 {
		t.Errorf("Begin before Position: %v, %d requests", err, requests.Load())
	}
	if _, err := first.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, first, entity(1, feed.Put, "a", "application/json", `{"n":1}`))
	requests.Store(0)
	if _, err := second.Position(t.Context()); !errors.Is(err, sink.ErrLocked) || requests.Load() != 0 {
		t.Errorf("second sink: %v, %d requests; want ErrLocked", err, requests.Load())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if at, err := second.Position(t.Context()); err != nil || at.ContentID != "<1@example.com>" {
		t.Errorf("second sink is at %+v, %v", at, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
