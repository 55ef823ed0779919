package main

import (
	"errors"
	"net/http"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

// A localTransport reads from a store as from a server, without a network, and
// tells of the store's own errors.
type localTransport struct {
	server http.RoundTripper
	polled bool // the store does not tell of changes
}

func newLocalTransport(web *server.Server, store storage.Store) *localTransport {
	_, watched := store.(storage.Watcher)
	return &localTransport{server: server.DirectTransport(web), polled: !watched}
}

// RoundTrip implements [http.RoundTripper].
func (t *localTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.polled && request.Header.Get("Prefer") != "" {
		// To wait for news in a store that does not tell of any is to ask it again
		// and again. The consumer does that more and more rarely.
		request = request.Clone(request.Context())
		request.Header.Del("Prefer")
	}
	response, err := t.server.RoundTrip(request)
	if err != nil {
		return nil, &storeError{err}
	}
	return response, nil
}

// A storeError is an error of the store that is read.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// Permanent tells the consumer that there is no point in trying again. What may pass
// (a network, a server that has too much to do) does not say so.
func (e *storeError) Permanent() bool {
	for _, permanent := range []error{storage.ErrPermission, storage.ErrLayout, storage.ErrUnsafe, chain.ErrCorrupt} {
		if errors.Is(e.err, permanent) {
			return true
		}
	}
	return false
}
