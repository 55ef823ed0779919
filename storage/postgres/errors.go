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

// retryFor is how long what goes wrong for a while is tried again: a server that restarts, or
// another that takes over.
const retryFor = 30 * time.Second

// idle are errors that end a connection on which nothing was asked for.
var idle = []string{
	"25P03", // idle_in_transaction_session_timeout
	"57P05", // idle_session_timeout
}

// named are errors that callers know by another name, with what to do about them.
var named = map[string]struct {
	err  error
	hint string
}{
	"42501": {storage.ErrPermission, "GRANT it to the user"},                                                            // insufficient_privilege
	"53100": {storage.ErrFull, "make room on the server's disk"},                                                        // disk_full
	"42P01": {storage.ErrLayout, "a table is missing: run \"feedctl migrate\", unless somebody changed the schema"},     // undefined_table
	"42883": {storage.ErrLayout, "a procedure is missing: run \"feedctl migrate\", unless somebody changed the schema"}, // undefined_function
}

// remarks are for errors that have no other name.
var remarks = map[string]string{
	"25006": "this server is read-only, maybe a standby: name the primary, or several with target_session_attrs=read-write",
	"25P03": "the body came too slowly: see idle_in_transaction_session_timeout",
	"25P04": "the body came too slowly: see transaction_timeout",
	"53300": "see max_connections of the server and pool_max_conns of the URL",
	"57014": "the server cancelled the statement: see statement_timeout",
	"55P03": "another transaction holds a lock for too long: see lock_timeout",
}

// retry calls attempt, which only reads, until it succeeds or fails for good. The error matches
// [storage.ErrUnavailable] if another try may succeed later.
func retry(ctx context.Context, attempt func() error) error {
	err, _ := again(ctx, func(bool) error { return attempt() })
	if err == nil {
		return nil
	}
	if passes, _ := judge(ctx, err); passes {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, outcome(err, false))
	}
	return outcome(err, false)
}

// retryWrite calls attempt until it succeeds or fails for good, and returns an error
// that is right for all attempts. An attempt is told if one before it may have taken
// effect, since the connection was lost.
func retryWrite(ctx context.Context, attempt func(doubt bool) error) error {
	return outcome(again(ctx, attempt))
}

// again calls attempt until it succeeds, fails for good or time is up. It returns the
// last error, and whether any attempt may have taken effect.
func again(ctx context.Context, attempt func(doubt bool) error) (err error, doubt bool) {
	start, pauses := time.Now(), backoff.Backoff{Min: 5 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		if err = attempt(doubt); err == nil {
			return nil, false
		}
		passes, lost := judge(ctx, err)
		doubt = doubt || lost
		if !passes || time.Since(start) > retryFor {
			return err, doubt
		}
		if ended := pauses.Wait(ctx, n); ended != nil {
			return fmt.Errorf("%w while waiting to try again: %w", ended, err), doubt
		}
	}
}

// judge says whether an attempt that failed is worth another one, and whether it may
// have taken effect.
func judge(ctx context.Context, err error) (passes, doubt bool) {
	if open, ok := errors.AsType[uncommittedError](err); ok {
		passes, _ = judge(ctx, open.error)
		return passes, false
	}
	if _, ok := errors.AsType[bodyError](err); ok {
		return false, false
	}
	running := ctx.Err() == nil
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// The connection has ended, and unless it was idle nobody knows when. The other
		// severity is in the language of the server.
		ended := pg.SeverityUnlocalized != "ERROR" && !connecting && !slices.Contains(idle, pg.Code)
		return running && pgerr.Passes(pg.Code), ended
	}
	if connecting {
		return running && (pgerr.Network(err) || standby(err)), false
	}
	// Whether the statement was sent, pgconn cannot tell: of a COMMIT that was, it says
	// that the connection was closed before.
	lost := pgerr.Network(err) || pgconn.SafeToRetry(err)
	return running && lost, lost || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// standby reports whether an error is that no server is the primary, which the URL
// asks for by target_session_attrs: soon one may be.
func standby(err error) bool {
	return errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
}

// An uncommittedError is one of a transaction that nobody has asked to commit.
type uncommittedError struct{ error }

func (e uncommittedError) Unwrap() error { return e.error }

// outcome returns the error that stands for all attempts. If one of them is in doubt,
// it is none that would say that nothing was written.
func outcome(err error, doubt bool) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		if n, ok := named[pg.Code]; ok {
			err = fmt.Errorf("%w: %w: %s", n.err, err, n.hint)
		}
		if text, ok := remarks[pg.Code]; ok {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	if !doubt {
		return err
	}
	return unknown(err)
}

// unknown returns an error that matches none of package storage.
func unknown(err error) error {
	return &unknownError{err}
}

type unknownError struct{ err error }

func (e *unknownError) Error() string { return "the outcome is unknown: " + e.err.Error() }

// Is lets only the caller's own doing through.
func (e *unknownError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

func failed(verb, key string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
