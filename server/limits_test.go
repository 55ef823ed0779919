package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A pipeListener makes connections in memory: they have deadlines, which use the fake time of synctest, and
// no buffers.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.connections <- server
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// onPipes runs a test with connections to a server with one feed, f, whose only
// entity has a body of 2 MiB.
func onPipes(t *testing.T, test func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		f, err := producer.Open(context.Background(), store, "f", producer.Config{})
		check(t, err)
		_, err = f.Publish(context.Background(), &feed.Entity{
			ContentID: "<1>", Operation: feed.Put, ContentType: "text/plain", Body: []byte(strings.Repeat("x", 2<<20)),
		})
		check(t, err)
		check(t, f.Close())
		s := newServer(t, slowStore{store}, server.Config{Writable: true})
		h, l := server.NewHTTPServer(s, slog.New(slog.DiscardHandler)), newPipeListener()
		served := make(chan error)
		go func() { served <- h.Serve(l) }()
		test(t, l.dial)
		check(t, h.Close())
		<-served
	})
}

// A slowStore is slow to create a page of feed g.
type slowStore struct{ storage.Store }

func (s slowStore) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if strings.HasPrefix(key, "feeds/g/") {
		time.Sleep(40 * time.Second)
	}
	return s.Store.Create(ctx, key, meta, body)
}

// outcome reads a response to its end and describes the result and the time it took.
func outcome(c net.Conn, start time.Time) string {
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Sprintf("nothing after %v", time.Since(start))
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return fmt.Sprintf("%d, cut after %v", response.StatusCode, time.Since(start))
	}
	return fmt.Sprintf("%d, %d bytes after %v", response.StatusCode, n, time.Since(start))
}

// trickle sends data piece by piece, and returns the outcome.
func trickle(t *testing.T, c net.Conn, header, body string, piece int, every time.Duration) string {
	start, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.WriteString(c, header)
		for rest := body; rest != "" && err == nil; {
			n := min(piece, len(rest))
			_, err = io.WriteString(c, rest[:n])
			rest = rest[n:]
			time.Sleep(every)
		}
	}()
	got := outcome(c, start)
	check(t, c.Close())
	<-done
	return got
}

func TestSlowClients(t *testing.T) {
	const post = "POST /feeds/f HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n"
	body := strings.Repeat("x", 100_000)
	t.Run("header never ends", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			if got := trickle(t, dial(), "", post, 1, time.Second); !strings.HasPrefix(got, "4") || !strings.HasSuffix(got, "after 10s") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("publish trickles", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			if got := trickle(t, dial(), post, body, 10, time.Second); !strings.HasPrefix(got, "408") || !strings.HasSuffix(got, "after 30s") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("publish stops", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			if got := trickle(t, dial(), post, "hello", 5, 0); !strings.HasPrefix(got, "408") || !strings.HasSuffix(got, "after 30s") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("publish is refused but trickles on", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			refused := strings.Replace(post, "/feeds/f", "/feeds/f..", 1)
			if got := trickle(t, dial(), refused, body, 10, time.Second); !strings.HasPrefix(got, "400") || !strings.HasSuffix(got, "after 15s") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("publish is slow but honest", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			if got := trickle(t, dial(), post, body, 2000, 20*time.Second); !strings.HasPrefix(got, "200") || !strings.HasSuffix(got, "after 16m20s") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("store is slow", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			got := trickle(t, dial(), strings.Replace(post, "/feeds/f", "/feeds/g", 1), body, 100_000, 0)
			if !strings.HasPrefix(got, "200") || !strings.HasSuffix(got, "after 1m20s") { // two writes: the feed's identity and its first page
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("reader stalls", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			_, err := io.WriteString(c, "GET /feeds/f HTTP/1.1\r\nHost: x\r\n\r\n")
			check(t, err)
			time.Sleep(31 * time.Second)
			if n, err := io.Copy(io.Discard, c); n > 64<<10 || err != nil {
				t.Errorf("got %d bytes, %v", n, err)
			}
		})
	})
	t.Run("reader is slow but honest", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			_, err := io.WriteString(c, "GET /feeds/f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			check(t, err)
			total, n := int64(0), int64(0)
			for err = nil; err == nil; total += n {
				n, err = io.CopyN(io.Discard, c, 200<<10)
				time.Sleep(8 * time.Second)
			}
			if err != io.EOF || total < 2<<20 {
				t.Errorf("got %d bytes, %v", total, err)
			}
		})
	})
	t.Run("long poll is longer than the timeout", func(t *testing.T) {
		onPipes(t, func(t *testing.T, dial func() net.Conn) {
			c, start := dial(), time.Now()
			_, err := io.WriteString(c, "GET /feeds/f HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\nPrefer: wait=50\r\n\r\n")
			check(t, err)
			if got := outcome(c, start); got != "304, 0 bytes after 50s" {
				t.Errorf("got %s", got)
			}
		})
	})
}
