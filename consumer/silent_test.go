package consumer

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A router can drop connections: it then forwards nothing more, and notifies neither end.
type router struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	mu   sync.Mutex
	open []*routed
}

// A routed is the client's end of a connection through a router.
type routed struct {
	net.Conn
	lost   atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (r *router) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := r.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &routed{Conn: conn, closed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, c)
	return c, nil
}

// forget drops the current connections.
func (r *router) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.lost.Store(true)
	}
}

func (c *routed) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if !c.lost.Load() {
			return n, err
		}
		if err != nil {
			<-c.closed
			return 0, net.ErrClosed
		}
	}
}

func (c *routed) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *routed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestSilence: a router drops the connections while a request is held on one of them and the others
// are idle. The follower logs this, opens a new connection soon after the requested wait, and
// receives what was published in the meantime.
func TestSilence(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols, bool){
		"HTTP/1": (*http.Protocols).SetHTTP1, "HTTP/2": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b1")
			f.longPoll = true
			inWorld(t, f, func(t *testing.T, w *world) {
				network := &router{dial: w.dial}
				transport := NewTransport(4)
				transport.Protocols, transport.DialContext = new(http.Protocols), network.DialContext
				protocol(transport.Protocols, true)
				w.client = &http.Client{Transport: transport}
				defer transport.CloseIdleConnections()
				var first [3]*http.Response
				for i := range first { // opens as many connections, which are then idle
					var err error
					if first[i], err = w.client.Get(feedURL); err != nil {
						t.Fatal(err)
					}
				}
				for _, resp := range first {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				var log bytes.Buffer
				reader := follow(t, w.newClient(Config{Follow: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}), Beginning())
				reader.expect(t, "a b")
				time.Sleep(5 * time.Second)
				network.forget()
				f.append("c2")
				time.Sleep(35*time.Second + time.Second) // 30 s were requested
				reader.expect(t, "a b c")
				if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), pageURL) {
					t.Errorf("the log is %s", &log)
				}
				f.append("d3")
				reader.expect(t, "a b c d")
				reader.end(t)
			})
		})
	}
}

// TestHeld: a response that arrives a little later than the requested wait is accepted.
func TestHeld(t *testing.T) {
	f := newFeed("a0")
	f.longPoll = true
	f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Header.Get("Prefer") != "" {
			time.Sleep(9 * time.Second)
		}
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		var log bytes.Buffer
		reader := follow(t, w.newClient(Config{Follow: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}), Beginning())
		time.Sleep(10 * time.Minute)
		reader.expect(t, "a")
		reader.end(t)
		if log.Len() > 0 {
			t.Errorf("the log is %s", &log)
		}
	})
}
