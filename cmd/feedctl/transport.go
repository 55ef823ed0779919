package main

import (
	"net"
	"net/http"
	"time"
)

// A transport makes all HTTP requests of a command but those of stores, and counts them by
// their method.
type transport struct {
	*http.Transport
	tally
}

// newTransport returns a transport for up to 20 requests at a time to one server.
func newTransport() *transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &transport{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    20,
		IdleConnTimeout:        60 * time.Second,
		ResponseHeaderTimeout:  5 * time.Minute, // the answer to a publish comes when it is durable
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}}
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.add(request.Method)
	return t.Transport.RoundTrip(request)
}
