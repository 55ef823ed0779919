package couchdb_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// urlVariable tells child processes where the server is.
const urlVariable = "FEEDCTL_SINK_COUCHDB_TEST_URL"

// server returns the URL of a server: in a child process, that of its parent.
func server(t testing.TB) string {
	return serverOf(t, func() string { return couchtest.Start(t).URL() })
}

func serverOf(t testing.TB, start func() string) string {
	t.Helper()
	if url := os.Getenv(urlVariable); url != "" {
		return url
	}
	url := start()
	t.Setenv(urlVariable, url)
	return url
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, options(server(t)))
}

// TestConformanceFake has a server that is as Apache CouchDB.
func TestConformanceFake(t *testing.T) {
	sinktest.Run(t, options(serverOf(t, func() string { return couchtest.NewFake(t).URL() })))
}

// options have a database for each directory. The steps that can fail are requests.
func options(server string) sinktest.Options {
	url := func(dir string) string { return fmt.Sprintf("%s/s%x", server, sha256.Sum224([]byte(dir))) }
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
