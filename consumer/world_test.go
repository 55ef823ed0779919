package consumer

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A world is a network with one server for all host names, in fake time.
type world struct {
	t       *testing.T
	conns   chan net.Conn
	closed  chan struct{}
	mu      sync.Mutex
	log     []string // "METHOD URL" of each request, in order
	handler http.Handler
	client  *http.Client
}

// inWorld runs a test in a new world. The test fails if goroutines of this package are still running
// afterwards.
func inWorld(t *testing.T, handler http.Handler, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, conns: make(chan net.Conn), closed: make(chan struct{}), handler: handler}
		server := &http.Server{Handler: w, Protocols: new(http.Protocols)}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(w) })
		transport := &http.Transport{DialContext: w.dial, DialTLSContext: w.dial}
		w.client = &http.Client{Transport: transport}
		test(t, w)
		synctest.Wait()
		checkLeaks(t)
		transport.CloseIdleConnections()
		_ = server.Close()
		running.Wait()
	})
}

// checkLeaks fails the test if a goroutine of this package is still running.
func checkLeaks(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("runtime.goexit1()")) {
			continue // it has returned
		}
		for _, ours := range []string{"consumer.(*readAhead)", "consumer.(*session)", "consumer.(*reading)"} {
			if bytes.Contains(stack, []byte(ours)) {
				t.Errorf("goroutine still runs:\n%s", stack)
				break
			}
		}
	}
}

func (w *world) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case w.conns <- server:
		return client, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make w a net.Listener.
func (w *world) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *world) Close() error {
	close(w.closed)
	return nil
}

func (w *world) Addr() net.Addr { return &net.UnixAddr{Name: "world"} }

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.log = append(w.log, r.Method+" "+r.Host+r.URL.String())
	handler := w.handler
	w.mu.Unlock()
	handler.ServeHTTP(rw, r)
}

// requests returns the requests since the last call.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

// count returns how many of the requests begin with prefix.
func count(requests []string, prefix string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// newClient returns a client in the world.
func (w *world) newClient(c Config) *Client {
	w.t.Helper()
	c.HTTPClient = w.client
	client, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}
