package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

// s3Memory limits the buffers of the S3 driver, in bytes. With this limit, pages of the usual size
// are still read whole, and the process stays small.
const s3Memory = 24 << 20

// An Env holds what one run of a task needs besides its arguments and flags. Only the fields Log,
// Transport and Store are required. The caller must call Close after the run.
type Env struct {
	Log *slog.Logger
	// Transport sends all HTTP requests, except those of S3 stores. Runs share it.
	Transport http.RoundTripper
	// Store is the URL of the store for names that do not include one.
	Store string
	// Output is where the sink "-" writes entities.
	Output io.Writer
	// Opened returns the store to use in place of a store that was opened: for example, a store that
	// counts requests.
	Opened func(storage.Store) storage.Store
	// Missing is called when a run waits for a feed that does not exist. The question is empty, or asks whether
	// another feed is meant. If Missing is nil, the missing feed is logged.
	Missing func(feed, question string)

	// Reached, if not nil, is called with the name of a store, a database or a sink and the result of
	// each use of it; the error is nil if the use succeeded.
	Reached func(name string, err error)

	// Shared holds the stores and databases that the runs of a process have opened. If it is nil, each run opens its
	// own.
	Shared *Shared

	// FailFast makes a run that follows end if a server remains unavailable, as other runs do; the
	// caller tries again later.
	FailFast bool

	closers []func() error
}

// attempts returns how many times to try a request: the given number or, if that is 0 and the run fails fast, the
// default of a run that does not follow. A result of 0 means the default.
func (e *Env) attempts(given int) int {
	if given == 0 && e.FailFast {
		return 8
	}
	return given
}

// An Access says how a store is used.
type Access struct {
	Create bool // create the store if it does not exist
	Follow bool // wait for the server of the store until the context ends
}

// Parse parses an argument of the form NAME or STORE#NAME.
func (e *Env) Parse(arg string) (locate.Stored, error) { return locate.Parse(arg, e.Store) }

// OpenNamed opens the store that an argument NAME or STORE#NAME refers to. The store must exist.
func (e *Env) OpenNamed(ctx context.Context, arg string) (store storage.Store, name string, err error) {
	at, err := e.Parse(arg)
	if err != nil {
		return nil, "", err
	}
	store, err = e.OpenStore(ctx, at.Store, Access{})
	return store, at.Name, err
}

// OpenStore opens a store by its URL, and closes it at the end of the run.
func (e *Env) OpenStore(ctx context.Context, rawURL string, want Access) (storage.Store, error) {
	if err := locate.CheckStore(rawURL); err != nil {
		return nil, err
	}
	common := e.shared()
	openIt := common.OpenStore
	if openIt == nil {
		openIt = stores.Open
	}
	store, err := open(ctx, e, &common.open, fmt.Sprint(want.Create, " ", rawURL), storage.Store.Close, func(ctx context.Context) (storage.Store, error) {
		return locate.Wait(ctx, e.Log, locate.ForStore(rawURL, want.Follow && !e.FailFast), func() (storage.Store, error) {
			store, err := openIt(ctx, rawURL, stores.Options{Create: want.Create, Memory: s3Memory})
			e.reached("store "+sink.Redact(rawURL), err)
			return store, err
		})
	})
	if err != nil {
		return nil, HintInit(err, rawURL)
	}
	if e.Reached != nil {
		store = observe.Wrap(store, func(_ context.Context, o observe.Operation) {
			if !o.Failed() {
				o.Err = nil
			}
			e.reached("store "+sink.Redact(rawURL), o.Err)
		})
	}
	return e.observed(ctx, store), nil
}

// reached calls Reached, unless it is nil or the run was cancelled.
func (e *Env) reached(name string, err error) {
	if e.Reached != nil && !errors.Is(err, context.Canceled) {
		e.Reached(name, err)
	}
}

// observed returns the store to use in place of one that was opened.
func (e *Env) observed(ctx context.Context, store storage.Store) storage.Store {
	if e.Log.Enabled(ctx, slog.LevelDebug) {
		store = observe.Log(store, e.Log)
	}
	store = tracing.FromContext(ctx).Store(store)
	if e.Opened != nil {
		store = e.Opened(store)
	}
	return store
}

// HintInit adds the command that creates a store to the error about a store that does not exist.
func HintInit(err error, rawURL string) error {
	if !errors.Is(err, storage.ErrNoStore) {
		return err
	}
	return exit.WithHint(err, fmt.Sprintf("another URL; or, to create an empty store there, \"feedctl init %s\"", sink.Redact(rawURL)))
}

// AtEnd makes Close close a resource, before those that were opened earlier.
func (e *Env) AtEnd(close func() error, what string) {
	e.closers = append(e.closers, func() error {
		if err := close(); err != nil {
			return fmt.Errorf("close %s: %w", what, err)
		}
		return nil
	})
}

// Close closes the resources of a run that ended with err. It returns err, joined with the errors
// of closing.
func (e *Env) Close(err error) error {
	for _, close := range slices.Backward(e.closers) {
		if failed := close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	e.closers = nil
	return err
}
