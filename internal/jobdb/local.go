package jobdb

import (
	"context"
	"fmt"

	"github.com/riverqueue/river/riverdriver"
)

// A local is a driver of River that does not use notifications from the database, which would cost a
// connection to PostgreSQL for each node, or 20 queries a second on SQLite. Since runs are added by the
// process that executes them, that process can notify itself.
type local[TTx any] struct {
	riverdriver.Driver[TTx]
	added chan string // the names of queues with new runs
}

func newLocal[TTx any](d riverdriver.Driver[TTx]) *local[TTx] {
	return &local[TTx]{d, make(chan string, 1)}
}

func (*local[TTx]) SupportsListenNotify() bool { return false }

func (d *local[TTx]) GetListener(p *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &localListener{p.Schema, d.added}
}

// A localListener implements [riverdriver.Listener].
type localListener struct {
	schema string
	added  <-chan string
}

// Close implements [riverdriver.Listener].
func (*localListener) Close(context.Context) error { return nil }

// Connect implements [riverdriver.Listener].
func (*localListener) Connect(context.Context) error { return nil }

// Listen implements [riverdriver.Listener].
func (*localListener) Listen(context.Context, string) error { return nil }

// Ping implements [riverdriver.Listener].
func (*localListener) Ping(context.Context) error { return nil }

// Schema implements [riverdriver.Listener].
func (l *localListener) Schema() string { return l.schema }

// SetAfterConnectExec implements [riverdriver.Listener].
func (*localListener) SetAfterConnectExec(string) {}

// Unlisten implements [riverdriver.Listener].
func (*localListener) Unlisten(context.Context, string) error { return nil }

// WaitForNotification implements [riverdriver.Listener].
func (l *localListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	select {
	case queue := <-l.added:
		return &riverdriver.Notification{Topic: "river_insert", Payload: fmt.Sprintf(`{"queue": %q}`, queue)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
