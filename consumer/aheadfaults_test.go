package consumer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/pageindex"
)

// TestFaultsAhead: if an early request for a page fails, the page is requested again, and no entity
// is lost, repeated or damaged.
func TestFaultsAhead(t *testing.T) {
	const pages = 60
	for name, fault := range map[string]func(x *indexedFeed, rw http.ResponseWriter, r *http.Request, number int){
		"unavailable": func(_ *indexedFeed, rw http.ResponseWriter, _ *http.Request, _ int) {
			rw.WriteHeader(http.StatusServiceUnavailable)
		},
		"throttled": func(_ *indexedFeed, rw http.ResponseWriter, _ *http.Request, _ int) {
			rw.Header().Set("Retry-After", "2")
			rw.WriteHeader(http.StatusTooManyRequests)
		},
		"gone for a moment": func(_ *indexedFeed, rw http.ResponseWriter, _ *http.Request, _ int) {
			rw.WriteHeader(http.StatusNotFound)
		},
		"reset":        func(*indexedFeed, http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) },
		"silent":       func(_ *indexedFeed, _ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() },
		"not a page":   func(_ *indexedFeed, rw http.ResponseWriter, _ *http.Request, _ int) { _, _ = rw.Write([]byte("hello")) },
		"another page": func(x *indexedFeed, rw http.ResponseWriter, r *http.Request, number int) { x.serve(rw, r, number-5) },
		"no next page yet": func(x *indexedFeed, rw http.ResponseWriter, _ *http.Request, number int) {
			x.send(rw, number, func(h http.Header, body []byte) []byte {
				h["Link"] = h["Link"][:2] // self and prev
				return body
			})
		},
		"damaged": func(x *indexedFeed, rw http.ResponseWriter, _ *http.Request, number int) {
			x.send(rw, number, func(h http.Header, body []byte) []byte {
				h.Set("Repr-Digest", reprDigest(body).Get("Repr-Digest"))
				return bytes.Replace(body, []byte("body of"), []byte("bodY of"), 1)
			})
		},
		"cut": func(x *indexedFeed, rw http.ResponseWriter, _ *http.Request, number int) {
			x.send(rw, number, func(_ http.Header, body []byte) []byte { return body[:len(body)-20] })
			panic(http.ErrAbortHandler)
		},
		"truncated": func(x *indexedFeed, rw http.ResponseWriter, _ *http.Request, number int) {
			x.send(rw, number, func(_ http.Header, body []byte) []byte { return body[:len(body)-20] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndexedFeed(pages)
			var mu sync.Mutex
			tries, most := map[int]int{}, 0
			x.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
				mu.Lock()
				tries[number]++
				most = max(most, tries[number])
				first := tries[number] == 1
				mu.Unlock()
				if !first || number%3 != 0 || number < 10 || number == pages {
					return false
				}
				fault(x, rw, r, number)
				return true
			}
			var log bytes.Buffer
			inWorld(t, x, func(t *testing.T, w *world) {
				logger := slog.New(slog.NewTextHandler(&log, nil))
				want(t, w.newClient(Config{Logger: logger}), afterFirst(), pageIDs(2, pages))
			})
			if most != 2 || x.tiles < 2 || strings.Contains(log.String(), "contradicts") {
				t.Errorf("a page was requested %d times, want 2; %d requests for tiles; log:\n%s", most, x.tiles, &log)
			}
		})
	}
}

// send sends a page after change has been applied to its header and body.
func (x *indexedFeed) send(rw http.ResponseWriter, number int, change func(http.Header, []byte) []byte) {
	x.testFeed.mu.Lock()
	body, header, _ := x.page(number)
	x.testFeed.mu.Unlock()
	body = change(header, body)
	for name, values := range header {
		rw.Header()[name] = values
	}
	_, _ = rw.Write(body)
}

// TestSearchAgainAhead: a page is missing for some time while those after it are in flight. The walk
// searches for its position again, and the index remains in use.
func TestSearchAgainAhead(t *testing.T) {
	const pages, missing = 60, 30
	x := newIndexedFeed(pages)
	gets := 0
	x.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		if number != missing || r.Method != http.MethodGet {
			return false
		}
		if gets++; gets > 2 {
			return false
		}
		rw.WriteHeader(http.StatusNotFound)
		return true
	}
	var log bytes.Buffer
	inWorld(t, x, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}), afterFirst(), pageIDs(2, pages))
	})
	if text := log.String(); !strings.Contains(text, "searching for the position again") || strings.Contains(text, "contradicts") || gets != 3 {
		t.Errorf("%d requests for the missing page; log:\n%s", gets, text)
	}
}

// TestHeldAhead: a page that is larger than the index says is verified before it is delivered, like any other
// page.
func TestHeldAhead(t *testing.T) {
	const pages, larger = 40, 25
	x := newIndexedFeed(pages)
	x.change(func() {
		p := x.pages[larger-1]
		p.entities = append(p.entities, entity("second", larger-1))
	})
	tries := 0
	x.intercept = func(rw http.ResponseWriter, _ *http.Request, number int) bool {
		if number != larger {
			return false
		}
		tries++
		x.send(rw, number, func(h http.Header, body []byte) []byte {
			body = append(body, bytes.Repeat([]byte("x"), 20_000)...) // an epilogue
			h.Set("Repr-Digest", reprDigest(body).Get("Repr-Digest"))
			if tries < 3 {
				body[len(body)-1]++
			}
			return body
		})
		return true
	}
	inWorld(t, x, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{ReadAhead: 4096}), afterFirst(), pageIDs(2, larger)+" second "+pageIDs(larger+1, pages))
	})
	if tries != 3 {
		t.Errorf("the page was requested %d times", tries)
	}
}

// TestKilledAhead ends a job after each of its entities, while pages are in flight, and continues
// it: each entity is committed once, in order.
func TestKilledAhead(t *testing.T) {
	const pages = 50
	for kill := 1; kill < pages-1; kill++ {
		x := newIndexedFeed(pages)
		inWorld(t, x, func(t *testing.T, w *world) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			applied := 0
			sink := &memorySink{t: t, apply: func(*feed.Entity) error {
				if applied++; applied == kill {
					end()
				}
				return nil
			}}
			job := Job{Client: w.newClient(Config{}), Sink: sink, URL: feedURL, From: afterFirst(), BatchEntities: 1}
			if _, err := job.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("killed after %d entities: %v", kill, err)
			}
			if _, err := job.Run(t.Context()); err != nil {
				t.Fatalf("continued after %d entities: %v", kill, err)
			}
			sink.expect(pageIDs(2, pages))
		})
	}
}

// TestChangesAhead changes the feed while its pages are in flight. The delivered entities are the beginning
// of the feed, and the error is the same as for a walk without an index.
func TestChangesAhead(t *testing.T) {
	const pages, when = 60, 20
	for name, c := range map[string]struct {
		change func(*indexedFeed)
		gap    bool
	}{
		"pruned below":          {func(x *indexedFeed) { x.prune(15) }, false},
		"pruned up to the next": {func(x *indexedFeed) { x.prune(when + 1) }, false},
		"pruned beyond":         {func(x *indexedFeed) { x.prune(50) }, true},
		"restored": {func(x *indexedFeed) {
			x.change(func() {
				for n := 10; n <= pages; n++ {
					x.pages[n-1] = &testPage{number: n, entities: []feed.Entity{entity("other", n)}}
				}
			})
		}, true},
		"grown": {func(x *indexedFeed) { x.addPage("zz1000") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndexedFeed(pages)
			inWorld(t, x, func(t *testing.T, w *world) {
				var got []string
				var err error
				for e, failed := range w.newClient(Config{}).Entities(t.Context(), feedURL, afterFirst()) {
					if err = failed; err != nil {
						break
					}
					if got = append(got, e.ContentID); e.ContentID == pageID(when) {
						c.change(x)
					}
				}
				all := pageIDs(2, pages) + " zz"
				if text := strings.Join(got, " "); !strings.HasPrefix(all, text) || len(got) < when-1 {
					t.Errorf("delivered %s", text)
				}
				if c.gap != IsGap(err) || !c.gap && err != nil {
					t.Errorf("error %v", err)
				}
				if !c.gap && len(got) < pages-1 {
					t.Errorf("%d pages were delivered", len(got))
				}
			})
		})
	}
}

// TestMemoryAhead: while an entity is being processed, the pages after it are buffered up to the
// configured size, even if the index says that they are small.
func TestMemoryAhead(t *testing.T) {
	const ahead, slow = 64 << 10, 25
	x := newIndexedFeed(60)
	x.lie = func(tile *pageindex.Tile) {
		for i := range tile.Pages {
			tile.Pages[i].Bytes = 1
		}
	}
	var sent, requests atomic.Int64
	x.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		if number <= slow {
			return false
		}
		requests.Add(1)
		x.send(&slowWriter{rw, &sent}, number, func(_ http.Header, body []byte) []byte {
			return append(bytes.Repeat([]byte("x"), 1<<20), body...) // a preamble
		})
		return true
	}
	inWorld(t, x, func(t *testing.T, w *world) {
		for e, err := range w.newClient(Config{ReadAhead: ahead, MaxHeld: ahead}).Entities(t.Context(), feedURL, afterFirst()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.ContentID != pageID(slow) {
				continue
			}
			time.Sleep(time.Minute)   // fake
			const inFlight = 16 << 10 // bytes of each request that are buffered at both ends
			n := requests.Load()
			if n < 4 || n > pagesAhead+1 || sent.Load() < n*ahead || sent.Load() > n*(ahead+inFlight) {
				t.Errorf("server sent %d bytes in %d requests, want up to %d of about %d bytes", sent.Load(), n, pagesAhead+1, ahead)
			}
			return
		}
	})
}

// A slowWriter writes a few bytes at a time and counts them.
type slowWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w *slowWriter) Write(b []byte) (written int, err error) {
	for written < len(b) && err == nil {
		var n int
		n, err = w.ResponseWriter.Write(b[written:min(written+1024, len(b))])
		written += n
		w.n.Add(int64(n))
	}
	return written, err
}
