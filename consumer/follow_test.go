package consumer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A follower follows a feed in the background.
type follower struct {
	got  []string
	err  error
	stop context.CancelFunc
	done chan struct{}
}

func follow(t *testing.T, c *Client, start Start) *follower {
	ctx, stop := context.WithCancel(t.Context())
	f := &follower{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for e, err := range c.Entities(ctx, feedURL, start) {
			if err != nil {
				f.err = err
				return
			}
			f.got = append(f.got, e.ContentID)
		}
	}()
	return f
}

// expect waits until all goroutines are blocked, and checks what has been received.
func (f *follower) expect(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := strings.Join(f.got, " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// end stops the follower, which must still be running.
func (f *follower) end(t *testing.T) {
	t.Helper()
	synctest.Wait()
	f.stop()
	<-f.done
	if !errors.Is(f.err, context.Canceled) {
		t.Errorf("ended with %v", f.err)
	}
}

// TestFollow follows feeds on servers that support different parts of HTTP.
func TestFollow(t *testing.T) {
	for _, ranges := range []bool{false, true} {
		for _, longPoll := range []bool{false, true} {
			for _, noETag := range []bool{false, true} {
				name := fmt.Sprintf("ranges=%v,longPoll=%v,noETag=%v", ranges, longPoll, noETag)
				t.Run(name, func(t *testing.T) {
					f := newFeed("a0 b0")
					f.ranges, f.longPoll, f.noETag = ranges, longPoll, noETag
					inWorld(t, f, func(t *testing.T, w *world) {
						reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
						pass := func() {
							if !longPoll || noETag {
								time.Sleep(20 * time.Second)
							}
						}
						reader.expect(t, "a b")
						f.append("c0")
						pass()
						reader.expect(t, "a b c")
						f.append("d0")
						f.append("e1")
						pass()
						reader.expect(t, "a b c d e")
						f.addPage("f1")
						pass()
						reader.expect(t, "a b c d e f")
						f.append("g1")
						f.addPage("h1")
						f.addPage("i1")
						f.append("j1")
						pass()
						reader.expect(t, "a b c d e f g h i j")
						time.Sleep(10 * time.Minute) // quiet
						f.append("k9")
						pass()
						reader.expect(t, "a b c d e f g h i j k")
						reader.end(t)
					})
				})
			}
		}
	}
}

// TestFollowStarts follows a feed from each kind of Start.
func TestFollowStarts(t *testing.T) {
	f := newFeed("a0 | b1 c1")
	f.longPoll = true
	inWorld(t, f, func(t *testing.T, w *world) {
		c := w.newClient(Config{Follow: true})
		latest := follow(t, c, Latest())
		since := follow(t, c, Since(second(9)))
		after := follow(t, c, at("c1", 2))
		lost := follow(t, c, at("x1", 2))
		synctest.Wait()
		f.append("d8", "e9")
		f.addPage("f9")
		latest.expect(t, "d e f")
		since.expect(t, "e f")
		after.expect(t, "d e f")
		lost.expect(t, "")
		if kindOfGap(lost.err) != "id" {
			t.Errorf("error is %v", lost.err)
		}
		latest.end(t)
		since.end(t)
		after.end(t)
	})
}

// TestFollowEmpty waits for a feed that does not exist yet, or is empty.
func TestFollowEmpty(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusNoContent} {
		for name, start := range map[string]Start{"beginning": Beginning(), "latest": Latest(), "since": Since(second(-5))} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				f := newFeed("")
				f.empty = status
				inWorld(t, f, func(t *testing.T, w *world) {
					reader := follow(t, w.newClient(Config{Follow: true}), start)
					time.Sleep(time.Hour)
					if n := len(w.requests()); n < 300 || n > 1500 {
						t.Errorf("%d requests in an hour", n)
					}
					f.addPage("a0")
					f.addPage("b1")
					time.Sleep(11 * time.Second)
					reader.expect(t, "a b")
					reader.end(t)
				})
			})
		}
	}
	inWorld(t, newFeed(""), func(t *testing.T, w *world) {
		reader := follow(t, w.newClient(Config{Follow: true}), at("a0", 1))
		<-reader.done
		var status *StatusError
		if !errors.As(reader.err, &status) || status.StatusCode != http.StatusNotFound {
			t.Errorf("a feed that no longer exists: error is %v", reader.err)
		}
		reader.stop()
	})
}

// TestPolling counts the requests during an hour in which the feed does not change.
func TestPolling(t *testing.T) {
	for _, test := range []struct {
		name     string
		longPoll bool
		noETag   bool
		least    int
		most     int
	}{
		{name: "server holds requests", longPoll: true, least: 3600/30 - 2, most: 2 * 3600 / 30},
		{name: "server does not", least: 3600/10 - 2, most: 4 * 3600 / 10}, // each poll is a GET and a HEAD
		{name: "server has no entity tags", noETag: true, least: 3600/10 - 2, most: 2 * 3600 / 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFeed("a0")
			f.longPoll, f.noETag = test.longPoll, test.noETag
			inWorld(t, f, func(t *testing.T, w *world) {
				reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
				synctest.Wait()
				w.requests()
				time.Sleep(time.Hour) // of quiet
				if n := len(w.requests()); n < test.least || n > test.most {
					t.Errorf("%d requests, want %d to %d", n, test.least, test.most)
				}
				reader.expect(t, "a")
				reader.end(t)
			})
		})
	}
}

// TestNextLinkWithoutNewTag: the ETag of a server need not change when a next link appears.
func TestNextLinkWithoutNewTag(t *testing.T) {
	f := newFeed("a0")
	f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		f.mu.Lock()
		_, header, _ := f.page(number)
		f.mu.Unlock()
		if number != 1 || r.Method != http.MethodGet || r.Header.Get("If-None-Match") == "" {
			return false
		}
		_ = header
		rw.WriteHeader(http.StatusNotModified)
		return true
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
		time.Sleep(time.Minute)
		f.addPage("b1")
		time.Sleep(time.Minute)
		reader.expect(t, "a b")
		reader.end(t)
	})
}

// TestRange: only the new part of a growing page is requested, and the entities are right whatever
// the server returns.
func TestRange(t *testing.T) {
	const large = 100_000
	grow := func(f *testFeed) {
		big := entity("big", 0)
		big.Body = []byte("body of big" + strings.Repeat(".", large))
		f.pages[0].entities = append([]feed.Entity{big}, f.pages[0].entities...)
	}
	t.Run("little is sent", func(t *testing.T) {
		f := newFeed("a0 b0")
		grow(f)
		f.ranges, f.longPoll = true, true
		var sent atomic.Int64
		f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
			counting := &countingWriter{ResponseWriter: rw}
			f.serve(counting, r, number)
			sent.Add(int64(counting.n))
			return true
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
			synctest.Wait()
			all := "big a b"
			for i := range 20 {
				id := string(rune('c' + i))
				f.append(id + "0")
				all += " " + id
				reader.expect(t, all)
			}
			reader.end(t)
			if n := sent.Load(); n > 2*large {
				t.Errorf("%d bytes were sent for a page of %d", n, large)
			}
		})
	})
	lies := map[string]func(rw http.ResponseWriter, body []byte, offset int){
		"wrong place": func(rw http.ResponseWriter, body []byte, offset int) {
			writePart(rw, body, offset, body[offset-3:])
		},
		"other range": func(rw http.ResponseWriter, body []byte, _ int) {
			writePart(rw, body, 0, body)
		},
		"cut short": func(rw http.ResponseWriter, body []byte, offset int) {
			writePart(rw, body, offset, body[offset:len(body)-20])
		},
		"other entity": func(rw http.ResponseWriter, body []byte, offset int) {
			writePart(rw, body, offset, []byte(strings.Replace(string(body[offset:]), "Content-ID: b", "Content-ID: x", 1)))
		},
		"other boundary": func(rw http.ResponseWriter, body []byte, offset int) {
			rw.Header().Set("Content-Type", `multipart/mixed; boundary="another"`)
			writePart(rw, body, offset, body[offset:])
		},
		"no links": func(rw http.ResponseWriter, body []byte, offset int) {
			rw.Header().Del("Link")
			writePart(rw, body, offset, body[offset:])
		},
		"not satisfiable": func(rw http.ResponseWriter, _ []byte, _ int) {
			rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b0")
			f.ranges = true
			lied := false
			f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
				f.mu.Lock()
				body, header, _ := f.page(number)
				f.mu.Unlock()
				var offset int
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &offset); err != nil || r.Header.Get("If-None-Match") == header.Get("ETag") {
					return false
				}
				for name, values := range header {
					rw.Header()[name] = values
				}
				lie(rw, body, offset)
				lied = true
				return true
			}
			inWorld(t, f, func(t *testing.T, w *world) {
				reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
				reader.expect(t, "a b")
				f.append("c1")
				time.Sleep(time.Minute)
				reader.expect(t, "a b c")
				reader.end(t)
				if !lied {
					t.Error("no range was requested")
				}
			})
		})
	}
}

func writePart(rw http.ResponseWriter, body []byte, offset int, part []byte) {
	rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, len(body)-1, len(body)))
	rw.WriteHeader(http.StatusPartialContent)
	_, _ = rw.Write(part)
}

type countingWriter struct {
	http.ResponseWriter
	n int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += n
	return n, err
}

// TestNoRanges: a server that does not support ranges gets only one range request, since range
// requests ask for uncompressed responses.
func TestNoRanges(t *testing.T) {
	f := newFeed("a0 b0")
	var ranges, all atomic.Int64
	f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method == http.MethodGet {
			all.Add(1)
			if r.Header.Get("Range") != "" {
				ranges.Add(1)
			}
		}
		return false
	}
	f.longPoll = true
	inWorld(t, f, func(t *testing.T, w *world) {
		reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
		reader.expect(t, "a b")
		f.append("c0")
		f.append("d0")
		reader.expect(t, "a b c d")
		f.append("e0")
		reader.expect(t, "a b c d e")
		reader.end(t)
		if ranges.Load() != 1 || all.Load() < 4 {
			t.Errorf("%d of %d requests were for a range", ranges.Load(), all.Load())
		}
	})
}

// TestFollowGone: the page of a follower that was suspended is gone when it polls again.
func TestFollowGone(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *testFeed) // changes the feed "a0 b1" while the follower is suspended
		lost   string
		want   string // Content-IDs received with the policy GapReplay
	}{
		{"removed", func(f *testFeed) { f.addPage("c5"); f.prune(2) }, "old", "a b c"},
		{"removed within a second", func(f *testFeed) { f.addPage("c1"); f.prune(2) }, "id", "a b c"},
		{"moved", func(f *testFeed) { f.addPage("a0", "b1", "c2"); f.prune(2) }, "", "a b c"},
	} {
		for _, policy := range []GapPolicy{GapFail, GapReplay} {
			t.Run(fmt.Sprint(test.name, ", ", policy), func(t *testing.T) {
				f := newFeed("a0 b1")
				inWorld(t, f, func(t *testing.T, w *world) {
					sink := &memorySink{t: t}
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan error, 1)
					job := Job{Client: w.newClient(Config{Follow: true}), URL: feedURL, Sink: sink, OnGap: policy}
					go func() {
						_, err := job.Run(ctx)
						done <- err
					}()
					synctest.Wait()
					sink.expect("a b")
					test.change(f)
					time.Sleep(time.Minute)
					if policy == GapFail && test.lost != "" {
						if err := <-done; kindOfGap(err) != test.lost {
							t.Errorf("error is %v", err)
						}
						stop()
						return
					}
					stop()
					if err := <-done; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					sink.expect(test.want)
				})
			})
		}
	}
}

// TestFollowFailures: a follower waits for a server that is temporarily unavailable.
func TestFollowFailures(t *testing.T) {
	f := newFeed("a0")
	f.longPoll = true
	down := false
	f.intercept = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if down {
			rw.WriteHeader(http.StatusBadGateway)
		}
		return down
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		reader := follow(t, w.newClient(Config{Follow: true}), Beginning())
		reader.expect(t, "a")
		f.mu.Lock()
		down = true
		f.mu.Unlock()
		f.append("b1")
		time.Sleep(time.Hour)
		f.mu.Lock()
		down = false
		f.mu.Unlock()
		time.Sleep(time.Minute)
		reader.expect(t, "a b")
		reader.end(t)
	})
}
