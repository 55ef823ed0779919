package couchdb

import (
	"context"
	"errors"
	"net"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// leanRows is how many rows are read without their documents at first, after they could not be
// read with them: whatever was wrong, be it a document or the source as a whole, may be over
// then. If it is not, it is twice as many the next time.
const leanRows = batchRows

// tryAgain returns nil after a pause if the changes feed, which a follower has given up, is to
// be followed again. withDocs says whether it had documents, one of which may break it.
func (r *reader) tryAgain(ctx context.Context, withDocs bool, err error) error {
	c := &r.bridge.config
	var nobody *net.OpError
	first := !r.reached
	r.reached = r.reached || !unreachable(err)
	r.cause = err
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, changes.ErrRecreated), errors.Is(err, bridge.ErrForeign), errors.Is(err, errBehind), couchdb.Permanent(err):
		return err
	case unreachable(err) && errors.As(err, &nobody):
		err = nobody // the rest says nothing that matters
		if first && !c.Follow && c.Attempts == 0 {
			return err
		}
	case withDocs && r.failed > 0 && !tooMany(err):
		r.leanLast = max(2*r.leanLast, leanRows)
		r.lean, r.failed = r.leanLast, 0
		c.Log.Warn("the changes could not be read with their documents, which are asked for by themselves for some rows now",
			"source", c.Source.URL(), "error", err, "rows", r.lean)
		return nil
	}
	r.failed++
	return r.bridge.core.AskAgain(ctx, r.failed, err)
}
