package watch

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage/postgres"
)

// Postgres watches stores in PostgreSQL. One query finds the feeds that have changed, whatever the number of
// feeds. It is made after each notification from the database, and every minute; if notifications do not
// arrive, as through PgBouncer, it is made every second.
type Postgres struct {
	// Open opens the store at a URL with a credential.
	Open func(ctx context.Context, server, credential string) (*postgres.Store, error)
}

const (
	postgresSweep = time.Minute
	// postgresPause is the minimum time between queries.
	postgresPause = 250 * time.Millisecond
)

// Watch implements [Source].
func (p Postgres) Watch(ctx context.Context, w *Watched) error {
	store, err := p.Open(ctx, w.Server, w.Credential)
	if err != nil {
		return err
	}
	defer store.Close()
	hints, err := store.Watch(ctx, layout.FeedsPrefix)
	if err != nil {
		return err
	}
	var states map[string]string
	var loaded time.Time
	for {
		next := postgresSweep
		if age := time.Since(loaded); age >= refreshEvery {
			if states, err = w.Jobs.States(ctx); err != nil {
				return err
			}
			loaded = time.Now()
		} else {
			next = refreshEvery - age // the notification may have been for a name not yet loaded
		}
		if err := comparePages(ctx, store, w.Jobs, states); err != nil {
			return err
		}
		w.Jobs.Checked("")
		if err := backoff.Sleep(ctx, postgresPause); err != nil {
			return err
		}
		timer := time.NewTimer(next)
		select {
		case <-hints:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// comparePages wakes the jobs of feeds whose last pages have changed.
func comparePages(ctx context.Context, store *postgres.Store, jobs Jobs, states map[string]string) error {
	var prefixes []string
	for feed := range states {
		if layout.CheckName(feed) == nil {
			prefixes = append(prefixes, layout.FeedPages(feed))
		}
	}
	// A producer may have left pages behind after the newest page.
	found, err := store.Latest(ctx, prefixes, chain.Ahead+1)
	if err != nil {
		return err
	}
	changed := map[string]string{}
	for feed, before := range states {
		state, ok := found[layout.FeedPages(feed)]
		if !ok {
			state = noFeed
		}
		if state != before {
			changed[feed] = state
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := jobs.Changed(ctx, changed); err != nil {
		return err
	}
	for feed, state := range changed {
		states[feed] = state
	}
	return nil
}
