package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// An ahead reads the next rows while the previous rows are being published.
type ahead struct {
	rows rows
	err  error
	stop context.CancelFunc
	done chan struct{}
}

// readAhead starts to read the rows that follow those whose ids are given, whether or not the latter
// have been deleted yet.
func (c Config) readAhead(ctx context.Context, d *DB, large bodies, m watermark, before []int64) *ahead {
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

// wait returns the rows, and whether the next rows were read at all. The caller must not hold a
// connection, since the pool may have only one. The context of the reads is not cancelled, because it
// is used again to read large bodies when they are published.
func (a *ahead) wait() (r rows, read bool, err error) {
	if a == nil {
		return rows{}, false, nil
	}
	<-a.done
	return a.rows, true, a.err
}

// cancel stops reading ahead. A nil receiver is valid.
func (a *ahead) cancel() {
	if a != nil {
		a.stop()
		<-a.done
	}
}
