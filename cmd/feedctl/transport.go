package main

import (
	"net/http"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/metrics"
)

// A transport makes all HTTP requests of a command but those of stores, and counts them by
// their method.
type transport struct {
	*http.Transport
	metrics.Tally
	failed metrics.Tally
}

// newTransport returns a transport for up to 20 requests at a time to one server.
func newTransport() *transport {
	t := consumer.NewTransport(20)
	t.ResponseHeaderTimeout = 5 * time.Minute // the answer to a publish comes when it is durable
	t.WriteBufferSize = 64 << 10
	return &transport{Transport: t}
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.Add(request.Method)
	response, err := t.Transport.RoundTrip(request)
	if err != nil && request.Context().Err() == nil || err == nil && consumer.Retryable(&consumer.StatusError{StatusCode: response.StatusCode}) {
		t.failed.Add(request.Method)
	}
	return response, err
}
