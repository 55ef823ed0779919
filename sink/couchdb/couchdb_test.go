package couchdb_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// urlVariable tells child processes what the URLs of the databases begin with.
const urlVariable = "FEEDCTL_SINK_COUCHDB_TEST_URL"

func TestConformance(t *testing.T) {
	sinktest.Run(t, options(t, couchtest.NewDB))
}

// TestConformanceFake has a server that is as Apache CouchDB.
func TestConformanceFake(t *testing.T) {
	sinktest.Run(t, options(t, func(t testing.TB) string { return couchtest.NewFake(t).NewDB(t) }))
}

// options have a database for each directory, beside one that newDB makes, or in a child
// process the same as its parent. The steps that can fail are requests.
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
