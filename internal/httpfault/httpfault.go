// Package httpfault injects faults into the responses of a server in a test.
package httpfault

import (
	"net/http"
	"strings"
	"sync"
)

// A Fault responds to a request in place of the handler, or damages its response.
type Fault func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc)

// Faults holds the faults of a server. The zero Faults has none.
type Faults struct {
	mu  sync.Mutex
	all []*pending
}

type pending struct {
	left  int // how many more requests to spoil; 0: all
	match func(*http.Request) bool
	fault Fault
}

// Inject injects a fault into the next n matching requests, or into all if n is 0. If
// several faults match, the one that was injected first applies.
func (f *Faults) Inject(n int, match func(*http.Request) bool, how Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, &pending{n, match, how})
}

// Heal removes all faults.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

// For returns the fault for a request, or nil if there is none. The fault counts as used.
func (f *Faults) For(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, x := range f.all {
		if !x.match(r) {
			continue
		}
		if x.left == 1 {
			f.all = append(f.all[:i:i], f.all[i+1:]...)
		}
		x.left--
		return x.fault
	}
	return nil
}

// On returns a function that matches requests by their method and by a part of their path and query. An
// empty string matches any.
func On(method, part string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return (method == "" || r.Method == method) && strings.Contains(r.URL.RequestURI(), part)
	}
}

// Cut breaks the connection after some bytes of the body, before the last chunk is sent.
func Cut(after int) Fault {
	return Spoil(after, func(*http.Request) { panic(http.ErrAbortHandler) })
}

// Stall sends some bytes of the body and then nothing more, not even a heartbeat, until the client
// disconnects or the channel is closed. Each value that is sent to the channel lets one more write
// through, so that rows arrive slowly.
func Stall(after int, release <-chan struct{}) Fault {
	return Spoil(after, func(r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
}

// Spoil lets the given number of bytes of a body through, and calls the given function before each
// write after these.
func Spoil(after int, then func(*http.Request)) Fault {
	return func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		healthy(&spoiledWriter{w, after, func() { then(r) }}, r)
	}
}

type spoiledWriter struct {
	http.ResponseWriter
	left int
	then func()
}

func (w *spoiledWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *spoiledWriter) Write(p []byte) (int, error) {
	whole := min(len(p), w.left)
	w.left -= whole
	n, err := w.ResponseWriter.Write(p[:whole])
	if err != nil || whole == len(p) {
		return n, err
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // so that the client gets the part before the fault
	w.then()
	rest, err := w.ResponseWriter.Write(p[whole:])
	return n + rest, err
}
