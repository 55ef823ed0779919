package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/backoff"
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
	case errors.Is(err, changes.ErrRecreated), errors.Is(err, ErrForeign), errors.Is(err, errBehind), couchdb.Permanent(err):
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
	most := c.Attempts
	if most == 0 && !c.Follow {
		most = tries
	}
	if r.failed++; most > 0 && r.failed >= most {
		return fmt.Errorf("no progress in %d attempts: %w", most, err)
	}
	pause, ends := pauses().After(r.failed), "never"
	if most > 0 {
		left := time.Duration(0)
		for n := r.failed; n < most; n++ {
			left += pauses().Longest(n)
		}
		ends = fmt.Sprintf("after %d attempts, in about %v", most, left)
	}
	c.Log.Warn("the source cannot be read, asking again", "source", c.Source.URL(), "error", err, "attempt", r.failed, "pause", pause, "gives_up", ends)
	return r.bridge.pause(ctx, pause)
}

// pauses are those between attempts to read from the source.
func pauses() backoff.Backoff {
	return backoff.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}
}
