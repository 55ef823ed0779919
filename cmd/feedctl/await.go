package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// A patience says how to wait for a server that is away when a command begins.
type patience struct {
	what  string        // "store" or "sink", for the log
	name  string        // without a password
	away  error         // matches the errors that are waited on
	limit time.Duration // how long; 0: not at all, negative: until the context ends
	pause time.Duration // between attempts at most; to find out that a server is away takes some time already
}

// await calls open until it succeeds, fails otherwise than with p.away, or the limit of
// the patience is reached.
func await[T any](ctx context.Context, a *app, p patience, open func() (T, error)) (T, error) {
	for begun := time.Now(); ; {
		v, err := open()
		if err == nil || !errors.Is(err, p.away) || ctx.Err() != nil || p.limit >= 0 && time.Since(begun) >= p.limit {
			return v, err
		}
		pause := backoff.Jitter(p.pause)
		a.log.WarnContext(ctx, "server is unavailable, retrying", p.what, p.name, "error", err, "pause", pause)
		if ended := backoff.Sleep(ctx, pause); ended != nil {
			return v, fmt.Errorf("wait for %s %s: %w: %w", p.what, p.name, ended, err)
		}
	}
}
