package watch

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/outbox"
)

// Outbox watches databases with an outbox. One query a second finds the feeds that have rows,
// whatever the number of feeds.
type Outbox struct {
	// Open opens the database at a URL with a credential.
	Open func(ctx context.Context, server, credential string) (*outbox.DB, error)
}

const (
	outboxEvery = time.Second
	// outboxAgain is the time after which jobs are woken again for rows that are still in the outbox.
	outboxAgain = time.Minute
)

// Watch implements [Source].
func (o Outbox) Watch(ctx context.Context, w *Watched) error {
	db, err := o.Open(ctx, w.Server, w.Credential)
	if err != nil {
		return err
	}
	defer db.Close()
	type rows struct {
		last  int64
		woken time.Time
	}
	known := map[string]rows{} // the rows for which jobs were woken, by feed
	for {
		found, err := db.Waiting(ctx)
		if err != nil {
			return err
		}
		now, changed := time.Now(), map[string]string{}
		for feed, last := range found {
			if k, ok := known[feed]; !ok || k.last != last || now.Sub(k.woken) >= outboxAgain {
				known[feed], changed[feed] = rows{last, now}, ""
			}
		}
		for feed := range known {
			if _, ok := found[feed]; !ok {
				delete(known, feed)
			}
		}
		if len(changed) > 0 {
			if err := w.Jobs.Changed(ctx, changed); err != nil {
				return err
			}
		}
		w.Jobs.Checked("")
		if err := backoff.Sleep(ctx, outboxEvery); err != nil {
			return err
		}
	}
}
