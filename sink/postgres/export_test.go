package postgres

import (
	"context"
	"net"
)

// OpenFaulty opens a sink that calls the given function before each request to the server.
func OpenFaulty(ctx context.Context, url string, o Options, before func() error) (*Sink, error) {
	return open(ctx, url, o, before)
}

// Dial connects as a sink does.
func (s *Sink) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.target.Writer.Conn.Config().DialFunc(ctx, network, address)
}
