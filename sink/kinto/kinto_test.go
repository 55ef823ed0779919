package kinto_test

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/sink/sinktest"
)

var allFaults = flag.Bool("all-faults", false, "also fail each request to real servers, and kill the sink a hundred times")

// urlVariable passes the prefix of the collections' URLs to child processes.
const urlVariable = "FEEDCTL_SINK_KINTO_TEST_URL"

func TestConformanceFake(t *testing.T) {
	sinktest.Run(t, options(t, 25, func() string { return kintotest.NewFake(t).URL() }))
}

func TestConformanceMemory(t *testing.T)     { testReal(t, kintotest.Memory) }
func TestConformancePostgreSQL(t *testing.T) { testReal(t, kintotest.PostgreSQL) }

// testReal runs the suite on a real server. Each step takes a real server a second, so by default all of the
// steps are made to fail only on the fake.
func testReal(t *testing.T, backend kintotest.Backend) {
	if testing.Short() && backend == kintotest.Memory {
		t.Skip("with -short, PostgreSQL is enough")
	}
	o := options(t, 5, func() string { return kintotest.Start(t, backend).URL() })
	if !*allFaults {
		o.OpenFaulty = nil
	}
	sinktest.Run(t, o)
}

// createBucket creates a bucket that everyone may write to, unless it exists. On PostgreSQL, the server may
// refuse one of two concurrent requests, with 503 or 409.
func createBucket(t testing.TB, bucket string) {
	for {
		response, answer := kintotest.Try(t, http.MethodPut, bucket, `{"permissions":{"write":["system.Everyone"]}}`, "If-None-Match", "*")
		switch response.StatusCode {
		case http.StatusCreated, http.StatusPreconditionFailed:
			return
		case http.StatusServiceUnavailable, http.StatusConflict:
		default:
			t.Fatalf("create bucket: %s: %s", response.Status, answer)
		}
	}
}

// options returns options with a bucket for each directory, since positions of several consumers in
// one collection may conflict. A child process has the same bucket as its parent. The steps that can
// fail are requests.
func options(t testing.TB, kills int, server func() string) sinktest.Options {
	root := os.Getenv(urlVariable)
	if root == "" {
		root = server()
		t.Setenv(urlVariable, root)
	}
	if *allFaults {
		kills = 100
	}
	var known sync.Map
	url := func(dir string) string {
		bucket := fmt.Sprintf("%s/buckets/t%x", root, sha256.Sum224([]byte(dir)))
		if _, again := known.LoadOrStore(bucket, true); !again {
			createBucket(t, bucket)
		}
		return bucket + "/collections/c"
	}
	openThrough := func(ctx context.Context, dir string, through transport) (consumer.Sink, error) {
		k, err := impatient(ctx, url(dir), 1, through)
		if err != nil {
			return nil, err // not a nil sink in an interface
		}
		return k, nil
	}
	return sinktest.Options{
		Open: func(ctx context.Context, dir string) (consumer.Sink, error) { return openThrough(ctx, dir, nil) },
		OpenFaulty: func(ctx context.Context, dir string, before func() error) (consumer.Sink, error) {
			return openThrough(ctx, dir, func(r *http.Request) (*http.Response, error) {
				if err := before(); err != nil {
					return nil, err
				}
				return http.DefaultTransport.RoundTrip(r)
			})
		},
		Read:  func(dir string) ([]sinktest.Record, error) { return read(url(dir)) },
		Kills: kills,
	}
}
