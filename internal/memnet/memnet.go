// Package memnet provides an in-memory network for tests in fake time (testing/synctest), with one HTTP server for
// all host names.
package memnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// A Net is a network with one server.
type Net struct {
	conns     chan net.Conn
	closed    chan struct{}
	transport *http.Transport

	mu       sync.Mutex
	requests []string
	dials    int
}

// New starts a server with a handler. It stops when the test, or the bubble, ends.
func New(t testing.TB, handler http.Handler) *Net {
	n := &Net{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.transport = &http.Transport{DialContext: n.dial, DialTLSContext: n.dial}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.requests = append(n.requests, r.Method+" "+r.URL.RequestURI())
		n.mu.Unlock()
		handler.ServeHTTP(w, r)
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(n) })
	t.Cleanup(func() {
		n.transport.CloseIdleConnections()
		_ = server.Close()
		running.Wait()
	})
	return n
}

// Client returns a client that sends all requests to the server.
func (n *Net) Client() *http.Client { return &http.Client{Transport: n.transport} }

// Requests returns the requests since the last call, such as "GET /db?x=1".
func (n *Net) Requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests
	n.requests = nil
	return r
}

// Dials returns the number of connections so far.
func (n *Net) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (n *Net) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	n.mu.Unlock()
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for a connection, for [http.Server].
func (n *Net) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (n *Net) Close() error {
	close(n.closed)
	return nil
}

// Addr returns a placeholder.
func (n *Net) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }
