package consumer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/feedctl/feedctl/page"
)

// serveBytes writes the first n bytes of a page with the Content-Length of the whole page.
func (f *testFeed) serveBytes(rw http.ResponseWriter, number, n int) {
	f.mu.Lock()
	body, header, _ := f.page(number)
	f.mu.Unlock()
	for name, values := range header {
		rw.Header()[name] = values
	}
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = rw.Write(body[:n])
	_ = http.NewResponseController(rw).Flush()
}

func pageSize(f *testFeed, number int) int { return len(f.body(f.pages[number-1])) }

// TestCutEverywhere cuts a page at each byte, in four ways. Each entity must be delivered once.
func TestCutEverywhere(t *testing.T) {
	size := pageSize(newFeed("a0 b0 c1 | d1"), 1)
	for _, way := range []string{"connection lost", "hangs", "short without notice", "reset before header"} {
		t.Run(way, func(t *testing.T) {
			for n := 0; n < size; n += 17 {
				f := newFeed("a0 b0 c1 | d1")
				cut := true
				f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
					if number != 1 || r.Method != http.MethodGet || !cut {
						return false
					}
					cut = false
					switch way {
					case "connection lost":
						f.serveBytes(rw, 1, n)
						panic(http.ErrAbortHandler)
					case "hangs":
						f.serveBytes(rw, 1, n)
						<-r.Context().Done()
					case "short without notice":
						body, header, _ := f.page(1)
						for name, values := range header {
							rw.Header()[name] = values
						}
						_, _ = rw.Write(body[:min(n, size-len("boundary-1--\r\n"))])
					default:
						panic(http.ErrAbortHandler)
					}
					return true
				}
				inWorld(t, f, func(t *testing.T, w *world) {
					want(t, w.newClient(Config{}), Beginning(), "a b c d")
					if gets := count(w.requests(), "GET feed.test/feed/1"); gets != 2 {
						t.Errorf("cut at %d: page was requested %d times", n, gets)
					}
				})
			}
		})
	}
}

// TestAlwaysCut: the entities before the cut are delivered, followed by an error with the
// offset of the cut.
func TestAlwaysCut(t *testing.T) {
	f := newFeed("a0 b0 c1")
	offset := bytes.Index(f.body(f.pages[0]), []byte("body of c"))
	f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method == http.MethodGet {
			f.serveBytes(rw, 1, offset)
			panic(http.ErrAbortHandler)
		}
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		got, err := ids(t, w.newClient(Config{Retry: RetryConfig{Attempts: 3}}), Beginning())
		var at *PageError
		if got != "a b" || !errors.As(err, &at) || at.Part != 2 || at.URL != pageURL+"1" || !Retryable(err) {
			t.Errorf("got %q and error %v", got, err)
		}
		if gets := count(w.requests(), "GET"); gets != 3 {
			t.Errorf("page was requested %d times", gets)
		}
	})
}

// TestOftenCut: the page is read although each connection breaks after a few more entities.
func TestOftenCut(t *testing.T) {
	f := newFeed("a0 b0 c0 d0 e0 f0 g0 h0")
	n := 0
	f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodGet || n == 8 {
			return false
		}
		f.serveBytes(rw, 1, bytes.Index(f.body(f.pages[0]), []byte("body of "+string(rune('a'+n)))))
		n++
		panic(http.ErrAbortHandler)
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{Retry: RetryConfig{Attempts: 3}}), Beginning(), "a b c d e f g h")
	})
}

// TestStopEarly: a caller that stops iterating does not wait for the page that is read ahead.
func TestStopEarly(t *testing.T) {
	f := newFeed("a0 | b1")
	f.intercept = func(_ http.ResponseWriter, r *http.Request, number int) bool {
		if number == 2 && r.Method == http.MethodGet {
			<-r.Context().Done()
		}
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		begun := time.Now()
		for _, err := range w.newClient(Config{}).Entities(t.Context(), feedURL, Beginning()) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("stopping took %v", took)
		}
	})
}

// TestChangedPage: an error is returned if a page has different content when it is requested again, unless it only grew.
func TestChangedPage(t *testing.T) {
	for name, words := range map[string]string{"other entity": "a0 x0 c1", "entity removed": "a0", "entity inserted": "x0 a0 b0 c1"} {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b0 c1")
			cut := true
			f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				if r.Method != http.MethodGet || !cut {
					return false
				}
				cut = false
				f.serveBytes(rw, 1, bytes.Index(f.body(f.pages[0]), []byte("body of c")))
				f.pages[0].entities = parseEntities(strings.Fields(words))
				panic(http.ErrAbortHandler)
			}
			inWorld(t, f, func(t *testing.T, w *world) {
				got, err := ids(t, w.newClient(Config{}), Beginning())
				if got != "a b" || !errors.Is(err, ErrPageChanged) {
					t.Errorf("got %q and error %v", got, err)
				}
			})
		})
	}
	t.Run("it grew", func(t *testing.T) {
		f := newFeed("a0 b0 c1")
		cut := true
		f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodGet || !cut {
				return false
			}
			cut = false
			f.serveBytes(rw, 1, bytes.Index(f.body(f.pages[0]), []byte("body of c")))
			f.append("d2")
			f.addPage("e2")
			panic(http.ErrAbortHandler)
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			want(t, w.newClient(Config{}), Beginning(), "a b c d e")
		})
	})
}

// largeFeed returns a feed with an entity of 1 MiB between small ones.
func largeFeed() *testFeed {
	f := newFeed("a0 large1 b1")
	f.pages[0].entities[1].Body = []byte("body of large" + strings.Repeat("0123456789abcde\n", 1<<16))
	return f
}

// TestStream reads an entity that is too large to be held in memory.
func TestStream(t *testing.T) {
	f := largeFeed()
	inWorld(t, f, func(t *testing.T, w *world) {
		c := w.newClient(Config{MaxWhole: 1000, ReadAhead: 4096})
		var all bytes.Buffer
		for _, read := range []bool{true, false} {
			n := 0
			for e, err := range c.Entities(t.Context(), feedURL, Beginning()) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; e.Stream != nil && read {
					if _, err := io.Copy(&all, e.Stream); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n != 3 {
				t.Errorf("got %d entities", n)
			}
		}
		if !bytes.Equal(all.Bytes(), f.pages[0].entities[1].Body) {
			t.Errorf("stream of %d bytes is wrong", all.Len())
		}
	})
}

// TestBrokenStream: if a stream breaks while the caller reads it, Read returns an error and the
// iteration ends; if the caller does not read it, the page is requested again.
func TestBrokenStream(t *testing.T) {
	for _, read := range []bool{true, false} {
		f := largeFeed()
		cut := true
		f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodGet || !cut {
				return false
			}
			cut = false
			f.serveBytes(rw, 1, 500_000)
			panic(http.ErrAbortHandler)
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			var got []string
			var last, streamErr error
			for e, err := range w.newClient(Config{MaxWhole: 1000}).Entities(t.Context(), feedURL, Beginning()) {
				if last = err; err != nil {
					break
				}
				got = append(got, e.ContentID)
				if e.Stream != nil && read {
					_, streamErr = io.Copy(io.Discard, e.Stream)
				}
			}
			if read && (streamErr == nil || !Retryable(streamErr) || !Retryable(last) || len(got) != 2) {
				t.Errorf("got %q, stream's error %v, error %v", got, streamErr, last)
			}
			if !read && (last != nil || strings.Join(got, " ") != "a large b") {
				t.Errorf("got %q and error %v", got, last)
			}
		})
	}
}

// compressed serves all pages of f in a content coding.
func compressed(f *testFeed, encoding string, encode func([]byte) []byte) *testFeed {
	f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		body, header, _ := f.page(number)
		for name, values := range header {
			rw.Header()[name] = values
		}
		if strings.Contains(r.Header.Get("Accept-Encoding"), encoding) {
			rw.Header().Set("Content-Encoding", encoding)
			body = encode(body)
		}
		_, _ = rw.Write(body)
		return true
	}
	return f
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func TestCompression(t *testing.T) {
	for encoding, encode := range map[string]func([]byte) []byte{"gzip": gzipped, "zstd": zstandard} {
		t.Run(encoding, func(t *testing.T) {
			inWorld(t, compressed(newFeed("a0 b1 | c2"), encoding, encode), func(t *testing.T, w *world) {
				want(t, w.newClient(Config{}), Beginning(), "a b c")
			})
		})
		t.Run(encoding+" bomb", func(t *testing.T) {
			f := newFeed("a0 b1")
			f.pages[0].entities[1].Body = make([]byte, 3<<20)
			inWorld(t, compressed(f, encoding, encode), func(t *testing.T, w *world) {
				c := w.newClient(Config{MaxPage: 1 << 20})
				got, err := ids(t, c, Beginning())
				if got != "a" && got != "" || !errors.Is(err, ErrTooLarge) || Retryable(err) {
					t.Errorf("got %q and error %v", got, err)
				}
				if gets := count(w.requests(), "GET"); gets != 1 {
					t.Errorf("%d requests", gets)
				}
			})
		})
		t.Run(encoding+" cut", func(t *testing.T) {
			cut := true
			inWorld(t, compressed(newFeed("a0 b1"), encoding, func(b []byte) []byte {
				b = encode(b)
				if cut {
					cut = false
					b = b[:len(b)-len(b)/3]
				}
				return b
			}), func(t *testing.T, w *world) {
				c := w.newClient(Config{Header: http.Header{"Accept-Encoding": {encoding}}})
				want(t, c, Beginning(), "a b")
			})
		})
	}
}

// TestLimits exceeds each limit of a Config.
func TestLimits(t *testing.T) {
	for name, c := range map[string]Config{"MaxEntity": {MaxEntity: 10000}, "MaxPage": {MaxPage: 10000}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, largeFeed(), func(t *testing.T, w *world) {
				c.Retry.Attempts = 2
				got, err := ids(t, w.newClient(c), Beginning())
				if got != "a" || !errors.Is(err, ErrTooLarge) || Retryable(err) {
					t.Errorf("got %q and error %v", got, err)
				}
			})
		})
	}
	t.Run("header of an entity", func(t *testing.T) {
		f := newFeed("a0")
		f.pages[0].entities[0].ContentLocation = strings.Repeat("x", 100_000)
		inWorld(t, f, func(t *testing.T, w *world) {
			if _, err := ids(t, w.newClient(Config{}), Beginning()); !errors.Is(err, ErrTooLarge) || !errors.Is(err, page.ErrHeaderTooLarge) {
				t.Error(err)
			}
		})
	})
}

// TestReadAhead: the next page is requested while the current one is still being read, and no more
// bytes of it are read ahead than allowed.
func TestReadAhead(t *testing.T) {
	f := newFeed("a0 | large1 | b2")
	f.pages[1].entities[0].Body = bytes.Repeat([]byte("x"), 1<<20)
	const ahead = 64 << 10
	var sent atomic.Int64
	f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		if number != 2 || r.Method != http.MethodGet {
			return false
		}
		body, header, _ := f.page(2)
		for name, values := range header {
			rw.Header()[name] = values
		}
		for len(body) > 0 {
			n, err := rw.Write(body[:min(1024, len(body))])
			if err != nil {
				return true
			}
			sent.Add(int64(n))
			body = body[n:]
		}
		return true
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		c := w.newClient(Config{ReadAhead: ahead, MaxWhole: 1000})
		w.requests()
		for e, err := range c.Entities(t.Context(), feedURL, Beginning()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.ContentID != "a" {
				continue
			}
			time.Sleep(time.Second)
			if gets := count(w.requests(), "GET feed.test/feed/2"); gets != 1 {
				t.Errorf("next page was requested %d times", gets)
			}
			const inFlight = 16 << 10 // buffered at both ends
			if sent := sent.Load(); sent < ahead || sent > ahead+inFlight {
				t.Errorf("server sent %d bytes, want about %d", sent, ahead)
			}
		}
	})
}
