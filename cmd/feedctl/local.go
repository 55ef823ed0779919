package main

import (
	"net/http"

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
	return &localTransport{server: server.DirectTransport(web), polled: !storage.PropertiesOf(store).Watches}
}

// RoundTrip implements [http.RoundTripper].
func (t *localTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.polled && request.Header.Get("Prefer") != "" {
		// To wait for news in a store that does not tell of any is to ask it again
		// and again. The consumer does that more and more rarely.
		request = request.Clone(request.Context())
		request.Header.Del("Prefer")
	}
	return t.server.RoundTrip(request)
}
