package metrics

import (
	"net/http"
	"time"

	"github.com/feedctl/feedctl/consumer"
)

// A Transport counts HTTP requests by their method.
type Transport struct {
	*http.Transport
	Tally
	failed Tally // requests that may succeed later
	open   open
}

// NewTransport returns a transport for up to 20 requests at a time to one server.
func NewTransport() *Transport {
	t := consumer.NewTransport(20)
	t.ResponseHeaderTimeout = 5 * time.Minute // the answer to a publish comes when it is durable
	t.WriteBufferSize = 64 << 10
	counted := &Transport{Transport: t}
	t.DialContext = counted.open.dialer(t.DialContext)
	return counted
}

// Connections returns how many connections are open, by the HOST:PORT that was dialed.
func (t *Transport) Connections() map[string]int { return t.open.counts() }

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.Add(request.Method)
	response, err := t.Transport.RoundTrip(request)
	if err != nil && request.Context().Err() == nil || err == nil && consumer.Retryable(&consumer.StatusError{StatusCode: response.StatusCode}) {
		t.failed.Add(request.Method)
	}
	return response, err
}
