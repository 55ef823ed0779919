package outbox

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Mark is a mark that looks whenever it is asked to.
type Mark struct{ mark mark }

// Look returns the id up to which all rows are visible, or never will be.
func (m *Mark) Look(ctx context.Context, d *DB) (settled int64, err error) {
	m.mark.looked = time.Time{}
	err = d.do(ctx, func(tx pgx.Tx) error { return m.mark.look(ctx, tx, time.Now()) })
	return m.mark.settled, err
}

// Pass tells the mark that rows with these ids were taken.
func (m *Mark) Pass(ids ...int64) { m.mark.pass(rows{ids: ids, passed: m.mark.settled + 1}) }

// Dial connects as the outbox does.
func (d *DB) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.pool.Config().ConnConfig.DialFunc(ctx, network, address)
}

// SetIdleAfter sets how long after its last row a feed counts as idle.
func (d *DB) SetIdleAfter(t time.Duration) { d.poller.idleAfter = t }
