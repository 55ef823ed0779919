package pgposition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/pgerr"
)

// retryFor is how long transient errors are retried, such as those of a server that restarts or
// fails over.
const retryFor = 30 * time.Second

// Passes reports whether an error is transient: a retry may succeed.
func Passes(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgerr.Passes(pg.Code) || pg.Code == "25P03" // idle_in_transaction_session_timeout: the batch is sent again
	}
	// DeadlineExceeded may be connect_timeout; the caller checks its own context.
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if !connecting && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return false
	}
	// No server is the primary required by target_session_attrs, but one may become it soon.
	standby := errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
	return standby || pgerr.Network(err) || pgconn.SafeToRetry(err)
}

var remarks = map[string]string{
	"25006": "the server is read-only, possibly a standby: connect to the primary, or list several hosts and target_session_attrs=read-write in the URL",
	"42501": "GRANT the privilege to this user: the sink needs SELECT, INSERT, UPDATE and DELETE, TEMPORARY on the database, and at first CREATE on the schema",
	"42P10": "the column with the key needs a primary key or a unique index on it alone",
	"53100": "free disk space on the server; the batch was rolled back",
	"54000": "if this is about an index, a key is too long for PostgreSQL's indexes, about 2,700 bytes",
	"55P03": "another transaction held a lock for too long: end it, or raise lock_timeout",
	"57014": "the server cancelled the statement: raise statement_timeout, or use smaller batches",
}

// remarked adds to an error what to do about it.
func remarked(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		if pg.Detail != "" {
			err = fmt.Errorf("%w: %s", err, pg.Detail)
		}
		if text, ok := remarks[pg.Code]; ok {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	return err
}

// Retry calls attempt until it succeeds or its error is not transient. It logs retries that
// take a long time.
func (k *Keeper) Retry(ctx context.Context, attempt func() error) error {
	start, pauses, told := time.Now(), backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}, false
	for n := 1; ; n++ {
		err := attempt()
		if err == nil {
			return nil
		}
		if !Passes(err) || ctx.Err() != nil || time.Since(start) > retryFor {
			return remarked(err)
		}
		if pauses.Longest(n) == pauses.Max && !told {
			told = true
			k.Log.WarnContext(ctx, "database is unavailable, retrying", "sink", k.String(), "for", retryFor, "error", err)
		}
		if ended := pauses.Wait(ctx, n); ended != nil {
			return fmt.Errorf("%w while waiting to retry: %w", ended, err)
		}
	}
}
