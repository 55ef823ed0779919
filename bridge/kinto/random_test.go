package kinto

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/storage/fault"
)

var long = flag.Bool("long", false, "run longer random walks, on PostgreSQL too")

// change changes the collection at random.
func (r *rig) change(rng *rand.Rand, step int) {
	r.t.Helper()
	id := func() string { return fmt.Sprint("d", rng.IntN(30)) }
	record := func(id string) string { return r.url + "/records/" + id }
	switch rng.IntN(12) {
	case 0, 1:
		kintotest.Try(r.t, http.MethodDelete, record(id()), "")
	case 2: // it looks like a tombstone
		r.put(id(), `"deleted":true`)
	case 3: // a stamp in the past
		past := time.Now().Add(-time.Duration(rng.IntN(1000)) * time.Hour).UnixMilli()
		kintotest.Try(r.t, http.MethodPut, record(id()), fmt.Sprintf(`{"data":{"past":%d,"last_modified":%d}}`, step, past))
	case 4:
		if rng.IntN(4) == 0 {
			kintotest.Try(r.t, http.MethodDelete, r.url+"/records", "") // a page of them
		}
	case 5:
		var requests []map[string]any
		for range 1 + rng.IntN(20) {
			method := []string{"PUT", "PUT", "DELETE"}[rng.IntN(3)]
			requests = append(requests, map[string]any{"method": method, "path": r.path() + "/records/" + id(), "body": map[string]any{"data": map[string]any{"batch": step}}})
		}
		body, err := json.Marshal(map[string]any{"requests": requests})
		if err != nil {
			r.t.Fatal(err)
		}
		kintotest.Send(r.t, http.MethodPost, r.root()+"/batch", string(body))
	default:
		r.put(id(), fmt.Sprintf(`"step":%d,"n":1.50`, step))
	}
}

// A wire fails some of the requests of a client.
type wire struct {
	// fail returns a response to replace the server's, or nil, and how many bytes of the server's
	// response are delivered, or -1 for all.
	fail func(*http.Request) (*http.Response, int64, error)
}

func (w *wire) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, most, err := w.fail(q)
	if resp != nil || err != nil {
		return resp, err
	}
	if resp, err = http.DefaultTransport.RoundTrip(q); err == nil && most >= 0 && q.Method == http.MethodGet {
		resp.Body = &cutBody{resp.Body, most}
	}
	return resp, err
}

// A cutBody is a body that ends too early.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// answer returns a response of the server.
func answer(q *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: q,
		Body: io.NopCloser(readerOf(body)), ContentLength: int64(len(body)),
	}
}

// trouble chooses at random how the client, the index and the store fail. It returns a context that
// may end at any request, and a function with the outcomes of operations on the store.
func (r *rig) trouble(rng *rand.Rand) (context.Context, func(fault.Op) fault.Outcome) {
	ctx, kill := context.WithCancel(r.t.Context())
	r.t.Cleanup(kill)
	kind, left := rng.IntN(7), int64(1+rng.IntN(12))
	var requests, writes atomic.Int64
	r.client.HTTP = &http.Client{Transport: &wire{func(q *http.Request) (*http.Response, int64, error) {
		if requests.Add(1) != left {
			return nil, -1, nil
		}
		switch kind {
		case 0:
			return nil, 0, io.ErrUnexpectedEOF
		case 1:
			return answer(q, http.StatusServiceUnavailable, http.Header{}, `{"code":503,"errno":201}`), 0, nil
		case 2:
			return nil, left * 40, nil
		case 3:
			kill()
		}
		return nil, -1, nil
	}}}
	if kind == 4 {
		if err := os.RemoveAll(filepath.Join(r.dir, "index")); err != nil {
			r.t.Fatal(err)
		}
	}
	outcome := []fault.Outcome{fault.Pass, fault.Lost, fault.Landed}[rng.IntN(3)]
	return ctx, func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() && writes.Add(1) == left {
			if kind > 3 {
				kill()
			}
			return outcome
		}
		return fault.Pass
	}
}

// TestRandom changes records at random, while the server, the store and the index fail at random, and
// the bridge is stopped. In the end the feed matches the collection. Without -long, it makes only two
// of the walks, one of them newest first. The names of walks contain their seeds.
func TestRandom(t *testing.T) {
	t.Parallel()
	const all = 20
	first := 2 * rand.Uint64N(all/2)
	backends, seeds, steps := []kintotest.Backend{kintotest.Memory}, []uint64{first, first + 1}, 40
	if *long {
		backends, seeds, steps = kintotest.Backends, nil, 100
		for seed := range uint64(all) {
			seeds = append(seeds, seed)
		}
	}
	for _, backend := range backends {
		server := kintotest.StartOwn(t, backend, "paginate_by=7")
		for _, seed := range seeds {
			t.Run(fmt.Sprint(backend, "/", seed), func(t *testing.T) {
				r := newRigOf(t, server.NewCollection(t))
				rng := rand.New(rand.NewPCG(seed, 7))
				newest := seed%2 == 1
				r.configure = func(c *Config) { c.NewestFirst = newest }
				for step := range steps {
					for range rng.IntN(8) {
						r.change(rng, step)
					}
					if rng.IntN(10) == 0 {
						server.Purge(t)
					}
					ctx, outcome := r.trouble(rng)
					b := r.open(fault.Wrap(r.store, outcome))
					if _, err := b.Run(ctx); err != nil {
						t.Logf("step %d: %v", step, err)
					}
					if err := b.Close(); err != nil {
						t.Logf("step %d: close: %v", step, err)
					}
				}
				r.client.HTTP = nil
				r.configure = func(c *Config) { c.ReconcileNow = true } // a stamp in the past leaves no sign
				r.run()
				r.check()
			})
		}
	}
}
