package kinto_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// errKilled is what a killed client sees.
var errKilled = errors.New("killed")

// TestLateRequest kills a consumer in each of its requests. The server carries out that request only after
// one of the requests of the next consumer, but has compared the stamps before that: it compares and writes
// in two steps. The next consumer opens the sink and writes everything.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	const window = 6 // requests of the next consumer while it opens
	every := 1
	if testing.Short() { // a few cases are enough for the race detector
		every = 3
	}
	for killed, done := 4, false; !done; killed++ {
		for after := 1 + rand.IntN(every); after <= window; after += every {
			f := kintotest.NewFake(t)
			url := f.NewCollection(t)
			var late []byte
			n := 0
			first, err := impatient(t.Context(), url, 1, func(r *http.Request) (*http.Response, error) {
				switch n++; {
				case n < killed:
					return http.DefaultTransport.RoundTrip(r)
				case n == killed && r.Method == http.MethodPost:
					late = must(io.ReadAll(r.Body))
				}
				return nil, errKilled
			})
			if err == nil {
				done = sinktest.Continue(t, first, batches()) == nil
				first.Close()
			}
			if late == nil {
				break
			}
			n = 0
			config := client.Config{URL: url, HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				response, err := http.DefaultTransport.RoundTrip(r)
				if n++; n == after {
					kintotest.Send(t, http.MethodPost, f.URL()+"/batch", string(unconditional(t, late)))
				}
				return response, err
			})}}
			second, err := kinto.OpenImpatient(t.Context(), config, "", 1, 10*time.Millisecond)
			if err != nil {
				t.Fatalf("request %d is late, after request %d of the next consumer: open: %v", killed, after, err)
			}
			if err := sinktest.Continue(t, second, batches()); err != nil {
				t.Fatalf("request %d is late, after request %d of the next consumer: %v", killed, after, err)
			}
			second.Close()
			checkListing(t, url, final())
		}
	}
}

// unconditional returns a batch without its conditions.
func unconditional(t *testing.T, body []byte) []byte {
	var batch struct {
		Requests []map[string]json.RawMessage `json:"requests"`
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&batch); err != nil {
		t.Fatal(err)
	}
	for _, r := range batch.Requests {
		delete(r, "headers")
	}
	return must(json.Marshal(batch))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
