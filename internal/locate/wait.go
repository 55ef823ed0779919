package locate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// A retryPolicy says how a command waits for a server that is unavailable when the command starts.
type retryPolicy struct {
	kind      string        // "store" or "sink", for the log
	name      string        // without a password
	transient error         // an error that matches it is a reason to retry
	limit     time.Duration // negative: until the context ends
	pause     time.Duration // the maximum between the end of an attempt and the next
}

// ForStore returns the policy for the store at a URL: wait up to 30 s or, to follow a feed, without
// limit.
func ForStore(rawURL string, follow bool) retryPolicy {
	p := retryPolicy{kind: "store", name: sink.Redact(rawURL), transient: storage.ErrUnavailable, limit: 30 * time.Second, pause: 2 * time.Second}
	if follow {
		p.limit = -1
	}
	return p
}

// ForSink returns the policy for a sink: do not wait or, to follow a feed, wait without limit.
func ForSink(spec string, follow bool) retryPolicy {
	p := retryPolicy{kind: "sink", name: sink.Redact(spec), transient: sink.ErrUnavailable, pause: 10 * time.Second}
	if follow {
		p.limit = -1
	}
	return p
}

// Wait calls open until it succeeds, it fails for a reason other than an unavailable server, or the
// policy's limit has passed.
func Wait[T any](ctx context.Context, log *slog.Logger, p retryPolicy, open func() (T, error)) (T, error) {
	for begun := time.Now(); ; {
		v, err := open()
		if err == nil || !errors.Is(err, p.transient) || ctx.Err() != nil || p.limit >= 0 && time.Since(begun) >= p.limit {
			return v, err
		}
		pause := backoff.Jitter(p.pause)
		log.WarnContext(ctx, "server is unavailable, retrying", p.kind, p.name, "error", err, "pause", pause)
		if ended := backoff.Sleep(ctx, pause); ended != nil {
			return v, fmt.Errorf("wait for %s %s: %w: %w", p.kind, p.name, ended, err)
		}
	}
}
