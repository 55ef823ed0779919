package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxHints is the maximum number of keys for which notifications are sent together; if there
	// are more, one notification with an empty payload is sent instead.
	maxHints = 100
	// hintTime limits the time for sending notifications, and so the time that Close waits.
	hintTime = 2 * time.Second
)

// hints sends notifications of changed keys after the commit: a NOTIFY in the transaction would
// serialize the commits of all transactions with a NOTIFY on the server. The loss of a notification
// does no harm.
type hints struct {
	pool    *pgxpool.Pool
	channel string
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu   sync.Mutex
	keys map[string]struct{}
}

// notify returns statements that send a notification for each key. Channels and keys
// contain no characters that need quoting. Unlike a call of pg_notify, NOTIFY needs no
// plan.
func notify(channel string, keys ...string) string {
	var sql strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&sql, "NOTIFY %s, '%s';", channel, key)
	}
	return sql.String()
}

func newHints(pool *pgxpool.Pool, channel string) *hints {
	h := &hints{
		pool: pool, channel: channel, keys: make(map[string]struct{}),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go h.run()
	return h
}

func (h *hints) add(key string) {
	h.mu.Lock()
	if len(h.keys) < maxHints {
		h.keys[key] = struct{}{}
	} else {
		h.keys = map[string]struct{}{"": {}}
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hints) run() {
	defer close(h.done)
	for {
		select {
		case <-h.wake:
			h.send()
		case <-h.stop:
			h.send()
			return
		}
	}
}

func (h *hints) send() {
	h.mu.Lock()
	keys := slices.Collect(maps.Keys(h.keys))
	clear(h.keys)
	h.mu.Unlock()
	if len(keys) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), hintTime)
		defer cancel()
		_, _ = h.pool.Exec(ctx, notify(h.channel, keys...)) // best effort
	}
}

// close sends the remaining notifications and stops.
func (h *hints) close() {
	close(h.stop)
	<-h.done
}
