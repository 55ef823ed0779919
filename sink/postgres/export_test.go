package postgres

import "context"

// OpenFaulty opens a sink that calls before ahead of each request to the server.
func OpenFaulty(ctx context.Context, url string, o Options, before func() error) (*Sink, error) {
	return open(ctx, url, o, before)
}
