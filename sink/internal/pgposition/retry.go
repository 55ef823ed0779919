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

// retryFor is how long what fails for a while is tried again: a server that restarts, or another
// that takes over.
const retryFor = 30 * time.Second

// Passes reports whether it is worth to try again after an error.
func Passes(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgerr.Passes(pg.Code) || pg.Code == "25P03" // idle_in_transaction_session_timeout: the batch is read again
	}
	// That of a connection may be connect_timeout; whether the caller's context has ended is
	// asked elsewhere.
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if !connecting && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return false
	}
	// No server is the primary, which the URL asks for by target_session_attrs: soon one may be.
	standby := errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
	return standby || pgerr.Network(err) || pgconn.SafeToRetry(err)
}

// remarks say what to do.
var remarks = map[string]string{
	"25006": "this server is read-only, maybe a standby: name the primary, or several with target_session_attrs=read-write",
	"42501": "GRANT it to the user; the sink needs SELECT, INSERT, UPDATE and DELETE, TEMPORARY on the database, and for the first time CREATE on the schema",
	"42P10": "the column with the key needs a primary key or a unique index of its own",
	"53100": "make room on the server's disk; nothing of the batch is kept",
	"54000": "if it is about an index, a key is longer than PostgreSQL's indexes take, about 2,700 bytes",
	"55P03": "another transaction holds a lock for too long: see lock_timeout",
	"57014": "the server cancelled the statement: see statement_timeout; smaller batches take less time",
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

// Retry calls attempt until it succeeds or fails for good. What takes longer is in the log.
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
			return fmt.Errorf("%w while waiting to try again: %w", ended, err)
		}
	}
}
