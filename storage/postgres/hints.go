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
	// maxHints is how many keys a hint names; of more it says only that there are
	// some.
	maxHints = 100
	// hintTime limits how long a hint may take, and so how long Close waits for the
	// last ones.
	hintTime = 2 * time.Second
)

// hints tells others which keys have changed, after the change: a NOTIFY within the
// transaction would have all transactions of the server that do so commit one after
// another. One that is lost is no harm.
type hints struct {
	pool    *pgxpool.Pool
	channel string
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu   sync.Mutex
	keys map[string]struct{}
}

// notify returns the statements that send a hint for each key. Neither a channel nor a
// key has a character that would have to be quoted, and they need no plan, unlike a
// call of pg_notify.
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
		_, _ = h.pool.Exec(ctx, notify(h.channel, keys...)) // a hint
	}
}

// close sends what is left.
func (h *hints) close() {
	close(h.stop)
	<-h.done
}
