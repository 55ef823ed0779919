package metrics

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestScrapes: while maxScrapes requests for metrics wait, one more is refused.
func TestScrapes(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	registry := NewRegistry("v1", NewTransport(), new(Tally))
	registry.MustRegister(collector(func(sender) {
		began <- struct{}{}
		<-end
	}))
	h := Handler(registry)
	get := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return w.Code
	}
	codes := make(chan int)
	for range maxScrapes {
		go func() { codes <- get() }()
		<-began
	}
	if code := get(); code != http.StatusServiceUnavailable {
		t.Errorf("with %d requests in progress, another one has status %d", maxScrapes, code)
	}
	close(end)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a request has status %d", code)
		}
	}
}

// TestConnections counts connections as they are opened and closed.
func TestConnections(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	transport, address := NewTransport(), listener.Addr().String()
	var all []net.Conn
	for range 2 {
		conn, err := transport.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	if got := transport.Connections(); len(got) != 1 || got[address] != 2 {
		t.Errorf("with two connections: %v", got)
	}
	for range 2 { // the second close is an error, and is not counted
		_ = all[0].Close()
	}
	if got := transport.Connections()[address]; got != 1 {
		t.Errorf("after one was closed: %d", got)
	}
	if err := all[1].Close(); err != nil || len(transport.Connections()) != 0 {
		t.Errorf("after all were closed: %v, %v", transport.Connections(), err)
	}
}
