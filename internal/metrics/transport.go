package metrics

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/readiness"
)

// A Transport counts HTTP requests by their method.
type Transport struct {
	*http.Transport
	Tally
	failed Tally // failed requests that may succeed later
	open   open
	watch  atomic.Pointer[readiness.Watch] // nil: none
}

// NewTransport returns a transport for up to 20 requests at a time to one server.
func NewTransport() *Transport {
	t := consumer.NewTransport(20)
	t.ResponseHeaderTimeout = 5 * time.Minute // a request to publish is answered once the data is durable
	t.WriteBufferSize = 64 << 10
	counted := &Transport{Transport: t}
	t.DialContext = counted.open.dialer(t.DialContext)
	return counted
}

// Connections returns how many connections are open, by the HOST:PORT that was dialed.
func (t *Transport) Connections() map[string]int { return t.open.counts() }

// Watch makes the transport record in w whether the servers respond.
func (t *Transport) Watch(w *readiness.Watch) { t.watch.Store(w) }

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.Add(request.Method)
	response, err := t.Transport.RoundTrip(request)
	failed := err
	if err == nil && consumer.Retryable(&consumer.StatusError{StatusCode: response.StatusCode}) {
		failed = fmt.Errorf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	}
	if failed != nil && request.Context().Err() != nil {
		return response, err // the client has ended the request
	}
	if failed != nil {
		t.failed.Add(request.Method)
	}
	if w := t.watch.Load(); w != nil {
		w.Note("server "+request.URL.Scheme+"://"+request.URL.Host, failed)
	}
	return response, err
}
