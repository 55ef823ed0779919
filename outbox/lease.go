package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/backoff"
)

// errLeaseLost is the error with which a runner stops when another runner has taken over.
var errLeaseLost = errors.New("another runner has taken over")

// longestLease is the longest valid lease. A lease that ends later than that was taken while the clock
// of the database was wrong.
const longestLease = time.Minute

// A lease determines which runner works on a feed. All times are those of the database's clock.
type lease struct {
	db     *DB
	feed   string
	runner string
	length time.Duration
}

func newLease(d *DB, c Config) *lease {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &lease{d, c.Feed, fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]), c.Lease}
}

// take acquires or extends the lease, and reports whether this runner holds it.
func (l *lease) take(ctx context.Context) (taken bool, err error) {
	err = l.db.do(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO outbox_lease AS held (feed, runner, until)
			VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
			ON CONFLICT (feed) DO UPDATE SET runner = excluded.runner, until = excluded.until
			WHERE held.runner = excluded.runner OR held.until < clock_timestamp() OR held.until > clock_timestamp() + make_interval(secs => $4)`,
			l.feed, l.runner, l.length.Seconds(), max(l.length, longestLease).Seconds())
		taken = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take lease of feed %q: %w", l.feed, err)
	}
	return taken, nil
}

// keep extends the lease until ctx ends. It calls lost when another runner holds the lease or the
// lease has expired.
func (l *lease) keep(ctx context.Context, lost func(error)) {
	renewed := time.Now()
	for backoff.Sleep(ctx, l.length/5) == nil {
		try, cancel := context.WithTimeout(ctx, l.length/2)
		taken, err := l.take(try)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && taken:
			renewed = time.Now()
		case err == nil, time.Since(renewed) > l.length:
			lost(fmt.Errorf("lease of feed %q: %w", l.feed, errLeaseLost))
			return
		}
	}
}

// release gives up the lease, so that another runner can take over at once.
func (l *lease) release(ctx context.Context) error {
	err := l.db.do(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM outbox_lease WHERE feed = $1 AND runner = $2`, l.feed, l.runner)
		return err
	})
	if err != nil {
		return fmt.Errorf("release lease of feed %q: %w", l.feed, err)
	}
	return nil
}
