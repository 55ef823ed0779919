package outbox

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Watermark makes a watermark available to tests outside the package.
type Watermark struct{ watermark watermark }

// Look updates the watermark, and returns the id up to which all rows are visible or never will be.
func (m *Watermark) Look(ctx context.Context, d *DB) (settled int64, err error) {
	m.watermark.updated = time.Time{}
	err = d.do(ctx, func(tx pgx.Tx) error { return m.watermark.update(ctx, tx, time.Now()) })
	return m.watermark.settled, err
}

// Pass records in the watermark that the rows with the given ids were taken.
func (m *Watermark) Pass(ids ...int64) {
	m.watermark.advance(rows{ids: ids, passed: m.watermark.settled + 1})
}

// Dial connects in the same way as the outbox.
func (d *DB) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.pool.Config().ConnConfig.DialFunc(ctx, network, address)
}

// SetIdleAfter sets how long a feed must be without rows to become idle.
func (d *DB) SetIdleAfter(t time.Duration) { d.poller.idleAfter = t }
