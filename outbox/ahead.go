package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// An ahead reads rows while those before them are being published.
type ahead struct {
	rows rows
	err  error
	stop context.CancelFunc
	done chan struct{}
}

// readAhead begins to read the rows that come after those that were taken before, and
// that may be there or not.
func (c Config) readAhead(ctx context.Context, d *DB, large bodies, m mark, before []int64) *ahead {
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = d.do(ctx, func(tx pgx.Tx) (err error) {
			a.rows, err = c.take(ctx, tx, large, m, before)
			return err
		})
	}()
	return a
}

// wait returns the rows, and whether any were read ahead. Who waits may not have a
// connection: there may be no other. The context lives on, since large bodies are read
// with it when they are published.
func (a *ahead) wait() (r rows, read bool, err error) {
	if a == nil {
		return rows{}, false, nil
	}
	<-a.done
	return a.rows, true, a.err
}

// cancel ends the reading, if there is any.
func (a *ahead) cancel() {
	if a != nil {
		a.stop()
		<-a.done
	}
}
