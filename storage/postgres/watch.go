package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/storage"
)

const (
	// pollEvery is the interval of hints while there are no notifications from the server.
	pollEvery = time.Second
	// checkEvery is how long a connection may be silent before it is checked.
	checkEvery = 30 * time.Second
)

// watches holds the subscriptions of a store. They share one connection, which listens from the
// first Watch until Close.
type watches struct {
	config  *pgx.ConnConfig
	channel string
	log     *slog.Logger

	mu     sync.Mutex
	closed bool
	subs   map[*subscription]struct{}
	cancel context.CancelFunc // stops run; nil if run was not started
	done   chan struct{}      // closed when run has returned
}

type subscription struct {
	prefix  string
	changed func(key string) // "" stands for any
	end     func()
}

func newWatches(config *pgx.ConnConfig, channel string, log *slog.Logger) *watches {
	return &watches{config: config, channel: channel, log: log, subs: make(map[*subscription]struct{}), done: make(chan struct{})}
}

// channelOf subscribes to prefix, and returns the channel of the subscription, which holds at most
// one value.
func (w *watches) channelOf(ctx context.Context, prefix string) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	notify := func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if err := w.add(ctx, &subscription{prefix, notify, func() { close(changed) }}); err != nil {
		return nil, err
	}
	return changed, nil
}

func (w *watches) add(ctx context.Context, sub *subscription) error {
	err := storage.CheckPrefix(sub.prefix)
	if err == nil && !strings.HasSuffix(sub.prefix, "/") {
		err = fmt.Errorf("%w: prefix does not end in \"/\"", storage.ErrKey)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.closed {
		err = os.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("watch %q: %w", sub.prefix, err)
	}
	if w.cancel == nil {
		var running context.Context
		running, w.cancel = context.WithCancel(context.Background())
		go w.run(running)
	}
	w.subs[sub] = struct{}{}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(sub)
	})
	return nil
}

func (w *watches) drop(sub *subscription) {
	if _, ok := w.subs[sub]; ok {
		delete(w.subs, sub)
		sub.end()
	}
}

func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	for sub := range w.subs {
		w.drop(sub)
	}
	cancel := w.cancel
	w.mu.Unlock()
	if cancel != nil {
		cancel()
		<-w.done
	}
}

// changed notifies the subscriptions of a change of key; "" means that any key may have changed.
func (w *watches) changed(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sub := range w.subs {
		if key == "" || strings.HasPrefix(key, sub.prefix) {
			sub.changed(key)
		}
	}
}

// errNoListen means that LISTEN does not work because of a proxy.
var errNoListen = errors.New("the session is shared with other clients, as with PgBouncer")

// run listens and reconnects until ctx ends. While it is disconnected, it notifies all
// subscriptions every pollEvery.
func (w *watches) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	logged := false
	for {
		err := w.listen(ctx, func() { logged = false })
		if ctx.Err() != nil {
			return
		}
		if !logged {
			w.log.Warn("no notifications from PostgreSQL, polling instead", "every", pollEvery, "error", err)
			logged = true
		}
		w.changed("")
		for wait := true; wait; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.changed("")
				wait = errors.Is(err, errNoListen) // reconnecting would not help
			}
		}
	}
}

// listen forwards notifications until the connection is lost.
func (w *watches) listen(ctx context.Context, listening func()) error {
	conn, err := pgx.ConnectConfig(ctx, w.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var process uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", mode).Scan(&process); err != nil {
		return err
	}
	if process != conn.PgConn().PID() {
		return errNoListen
	}
	for _, sql := range []string{"SET idle_session_timeout = 0", "LISTEN " + w.channel} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	listening()
	w.changed("") // for changes before LISTEN
	for {
		key, err := next(ctx, conn)
		if err != nil {
			return err
		}
		if key != nil {
			w.changed(*key)
		}
	}
}

// next waits for a notification and returns its key. It returns nil if there was no notification
// for checkEvery but the connection works.
func next(ctx context.Context, conn *pgx.Conn) (*string, error) {
	silence, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	n, err := conn.WaitForNotification(silence)
	switch {
	case err == nil:
		return &n.Payload, nil
	case ctx.Err() != nil || silence.Err() == nil:
		return nil, err
	}
	answer, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	return nil, conn.Ping(answer)
}
