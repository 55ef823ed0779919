package task

import (
	"context"
	"fmt"
	"net/url"

	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/shared"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/stores"
)

// Shared holds the stores and databases that runs use at the same time: each is opened once, and
// closed when no run uses it. Their memory and connections therefore do not grow with the number of
// runs, and all runners of an outbox share the statements that look for rows. The zero Shared is
// empty.
type Shared struct {
	// OpenStore opens stores; nil: [stores.Open].
	OpenStore func(ctx context.Context, rawURL string, o stores.Options) (storage.Store, error)

	open     shared.Pool[storage.Store]
	pages    shared.Pool[*postgres.Store]
	outboxes shared.Pool[*outbox.DB]
}

// shared returns e.Shared or, if that is nil, an empty Shared.
func (e *Env) shared() *Shared {
	if e.Shared == nil {
		return &Shared{}
	}
	return e.Shared
}

// open opens the resource with a name, unless another run has opened it, and releases it at the end
// of the run.
func open[T any](ctx context.Context, e *Env, from *shared.Pool[T], name string, closeIt func(T) error, openIt func(context.Context) (T, error)) (T, error) {
	value, release, err := from.Open(ctx, name, openIt, closeIt)
	if err == nil {
		e.AtEnd(release, "store")
	}
	return value, err
}

// OpenOutbox opens the database of an outbox by its URL, and closes it at the end of the run.
func (e *Env) OpenOutbox(ctx context.Context, rawURL string, want Access) (*outbox.DB, error) {
	openIt := outbox.Open
	if want.Create {
		openIt = outbox.Create
	}
	closeIt := func(db *outbox.DB) error { db.Close(); return nil }
	return open(ctx, e, &e.shared().outboxes, fmt.Sprint(want.Create, " ", rawURL), closeIt, func(ctx context.Context) (*outbox.DB, error) {
		return locate.Wait(ctx, e.Log, locate.ForStore(rawURL, want.Follow && !e.FailFast), func() (*outbox.DB, error) {
			db, err := openIt(ctx, rawURL)
			e.reached("outbox "+sink.Redact(rawURL), err)
			return db, err
		})
	})
}

// ConnectPages connects to a store in PostgreSQL, and disconnects at the end of the run.
func (e *Env) ConnectPages(ctx context.Context, u *url.URL, want Access) (*postgres.Store, error) {
	return open(ctx, e, &e.shared().pages, u.String(), (*postgres.Store).Close, func(ctx context.Context) (*postgres.Store, error) {
		return locate.Wait(ctx, e.Log, locate.ForStore(u.String(), want.Follow && !e.FailFast), func() (*postgres.Store, error) { return postgres.Connect(ctx, u, e.Log) })
	})
}
