package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/pgerr"
	"github.com/feedctl/feedctl/storage"
)

// retryFor is how long transient errors are retried, such as those of a restart or a
// failover.
const retryFor = 30 * time.Second

// idle lists the codes of the errors with which the server ends an idle connection.
var idle = []string{
	"25P03", // idle_in_transaction_session_timeout
	"57P05", // idle_session_timeout
}

// named maps the codes of errors to errors of package storage, with a remedy.
var named = map[string]struct {
	err  error
	hint string
}{
	"42501": {storage.ErrPermission, "GRANT the privilege to this user"},                                                   // insufficient_privilege
	"53100": {storage.ErrFull, "make room on the server's disk"},                                                           // disk_full
	"42P01": {storage.ErrLayout, "a table is missing: run \"feedctl migrate\", unless the schema was changed by hand"},     // undefined_table
	"42883": {storage.ErrLayout, "a procedure is missing: run \"feedctl migrate\", unless the schema was changed by hand"}, // undefined_function
}

// remarks maps the codes of errors that are not in named to explanations.
var remarks = map[string]string{
	"25006": "the server is read-only, possibly a standby: connect to the primary, or list several hosts and target_session_attrs=read-write in the URL",
	"25P03": "the body arrived too slowly: raise idle_in_transaction_session_timeout",
	"25P04": "the body arrived too slowly: raise transaction_timeout",
	"53300": "raise max_connections of the server, or lower pool_max_conns in the URL",
	"57014": "the server cancelled the statement: raise statement_timeout",
	"55P03": "another transaction held a lock for too long: end it, or raise lock_timeout",
}

// retry calls attempt, which only reads, until it succeeds or fails for good. A transient error
// matches [storage.ErrUnavailable].
func retry(ctx context.Context, attempt func() error) error {
	err, _ := again(ctx, func(bool) error { return attempt() })
	if err == nil {
		return nil
	}
	if passes, _ := classify(ctx, err); passes {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, outcome(err, false))
	}
	return outcome(err, false)
}

// retryWrite calls attempt until it succeeds or fails for good, and returns an error
// that covers all attempts. The argument of attempt reports whether an earlier attempt may have
// taken effect, because the connection was lost.
func retryWrite(ctx context.Context, attempt func(uncertain bool) error) error {
	return outcome(again(ctx, attempt))
}

// again calls attempt until it succeeds, fails for good or retryFor has passed. It
// returns the last error, and whether any attempt may have taken effect.
func again(ctx context.Context, attempt func(uncertain bool) error) (err error, uncertain bool) {
	start, pauses := time.Now(), backoff.Backoff{Min: 5 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		if err = attempt(uncertain); err == nil {
			return nil, false
		}
		passes, lost := classify(ctx, err)
		uncertain = uncertain || lost
		if !passes || time.Since(start) > retryFor {
			return err, uncertain
		}
		if ended := pauses.Wait(ctx, n); ended != nil {
			return fmt.Errorf("%w while waiting to retry: %w", ended, err), uncertain
		}
	}
}

// classify reports whether a failed attempt should be retried, and whether it may have
// taken effect.
func classify(ctx context.Context, err error) (passes, uncertain bool) {
	if open, ok := errors.AsType[uncommittedError](err); ok {
		passes, _ = classify(ctx, open.error)
		return passes, false
	}
	if _, ok := errors.AsType[bodyError](err); ok {
		return false, false
	}
	running := ctx.Err() == nil
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// If the severity is not ERROR, the connection has ended. Unless the connection was idle,
		// the statement may have been committed before its end. The field Severity is in the
		// language of the server.
		ended := pg.SeverityUnlocalized != "ERROR" && !connecting && !slices.Contains(idle, pg.Code)
		return running && pgerr.Passes(pg.Code), ended
	}
	if connecting {
		return running && (pgerr.Network(err) || standby(err)), false
	}
	// pgconn cannot tell reliably whether the statement was sent: even after sending a COMMIT, it
	// may report that the connection was already closed.
	lost := pgerr.Network(err) || pgconn.SafeToRetry(err)
	return running && lost, lost || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// standby reports whether an error means that none of the servers is the primary, although
// target_session_attrs in the URL requires the primary. A standby may be promoted soon.
func standby(err error) bool {
	return errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
}

// An uncommittedError is an error in a transaction before its COMMIT was sent.
type uncommittedError struct{ error }

func (e uncommittedError) Unwrap() error { return e.error }

// outcome returns the error of all attempts together. If uncertain is set, an attempt may have
// taken effect, and the error matches no error of package storage.
func outcome(err error, uncertain bool) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		if n, ok := named[pg.Code]; ok {
			err = fmt.Errorf("%w: %w: %s", n.err, err, n.hint)
		}
		if text, ok := remarks[pg.Code]; ok {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	if !uncertain {
		return err
	}
	return unknown(err)
}

// unknown returns an error that matches no error of package storage.
func unknown(err error) error {
	return &unknownError{err}
}

type unknownError struct{ err error }

func (e *unknownError) Error() string { return "the outcome is unknown: " + e.err.Error() }

// Is matches only the errors of contexts.
func (e *unknownError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

func failed(verb, key string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
