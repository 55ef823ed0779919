package couchdb

import (
	"context"
	"errors"
	"net"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// leanRows is how many rows are first read without their documents after reading them with
// documents has failed. The number doubles each time that it fails again.
const leanRows = batchRows

// tryAgain returns nil after a pause if the changes feed is to be followed again after it failed
// with err.
func (r *reader) tryAgain(ctx context.Context, err error) error {
	c := &r.bridge.config
	var network *net.OpError
	first := !r.reached
	r.reached = r.reached || !unreachable(err)
	r.cause = err
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, changes.ErrRecreated), errors.Is(err, bridge.ErrForeign), errors.Is(err, errBehind), couchdb.Permanent(err):
		return err
	case unreachable(err) && errors.As(err, &network):
		err = network // shorter, with the same information
		if first && !c.Follow && c.Attempts == 0 {
			return err
		}
	case r.follower != nil && r.withDocs && r.failed > 1 && !tooMany(err): // the documents may be the cause
		r.follower = nil
		r.leanLast = max(2*r.leanLast, leanRows)
		r.lean, r.failed = r.leanLast, 0
		c.Log.Warn("changes cannot be read with their documents, requesting documents separately for the next rows",
			"source", c.Source.URL(), "error", err, "rows", r.lean)
		return nil
	}
	r.failed++
	return r.bridge.core.AskAgain(ctx, r.failed, err)
}
