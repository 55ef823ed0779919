package jobs

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/tcp"
)

// newTransport returns the transport that the jobs of a node share. It keeps the connections
// of a run for the next one.
func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       tcp.Dialer(10 * time.Second).DialContext,
		ForceAttemptHTTP2: true,
		// These detect a dead connection, since a shared one is not closed when one of its requests
		// times out.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  5 * time.Minute, // a request to publish is answered once the data is durable
		MaxIdleConnsPerHost:    50,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
}

// news holds what a node has learned about origins and has not yet written to the database.
type news struct {
	waits map[string]*OriginError // the waits that servers have asked for
	until map[string]time.Time
	up    map[string]bool // whether origins were used successfully since a run failed because of them
}

func newNews() *news {
	return &news{waits: map[string]*OriginError{}, until: map[string]time.Time{}, up: map[string]bool{}}
}

// wait records that a server asks its clients to wait.
func (n *news) wait(e *OriginError, until time.Time) {
	if until.After(n.until[e.Origin]) {
		n.waits[e.Origin], n.until[e.Origin] = e, until
	}
}

// add adds older news.
func (n *news) add(older *news) {
	for origin, e := range older.waits {
		n.wait(e, older.until[origin])
	}
	for origin, up := range older.up {
		if _, ok := n.up[origin]; !ok {
			n.up[origin] = up
		}
	}
}

// asked records that a server asks its clients to wait.
func (w *worker) asked(e *origins.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news.wait((*OriginError)(e), time.Now().Add(e.RetryAfter))
	signal(w.shares)
}

// worked records that a run has used an origin successfully.
func (w *worker) worked(origin string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news.up[origin] = true
	if w.failing[origin] {
		signal(w.shares)
	}
}

// workedAll records that a run has used all its origins successfully.
func (w *worker) workedAll(i Identity) {
	for _, origin := range []string{i.SourceOrigin, i.TargetOrigin} {
		if origin != "" {
			w.worked(origin)
		}
	}
}

// failed records that a run has ended because of an origin. Earlier successes do not count.
func (w *worker) failed(origin string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news.up[origin] = false
}

// share writes the state of origins to the database, and reads that of other nodes.
func (w *worker) share(ctx context.Context) error {
	w.mu.Lock()
	fresh := w.news
	w.news = newNews()
	idle := len(w.runs) == 0 && len(fresh.waits)+len(fresh.up) == 0
	w.mu.Unlock()
	if idle {
		return nil
	}
	err := w.write(ctx, fresh)
	if err != nil { // keep the news, or other nodes would never be told
		w.mu.Lock()
		defer w.mu.Unlock()
		w.news.add(fresh)
	}
	return err
}

// write writes news to the database, and reads the state of origins from it.
func (w *worker) write(ctx context.Context, fresh *news) error {
	for origin, e := range fresh.waits {
		if wait := time.Until(fresh.until[origin]); wait > 0 {
			if err := w.store.block(ctx, e, wait); err != nil {
				return err
			}
		}
	}
	blocked, err := w.store.blocked(ctx)
	if err != nil {
		return err
	}
	failing := map[string]bool{}
	for origin, wait := range blocked {
		if fresh.up[origin] {
			if err := w.store.OriginUp(ctx, origin); err != nil {
				return err
			}
			w.wake()
		} else {
			failing[origin] = true
		}
		if wait > 0 {
			w.pool.Block(origin, wait)
		}
	}
	w.mu.Lock()
	w.failing = failing
	w.mu.Unlock()
	return nil
}

// block keeps all nodes from starting runs that use an origin, for the given time.
func (s *Scheduler) block(ctx context.Context, e *OriginError, wait time.Duration) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		const sql = `INSERT INTO @origin (origin, failures, since, open, probe, blocked, asked, reason) VALUES ($1, 0, @now, false, 0, @now + $2, @now + $2, $3)
			ON CONFLICT (origin) DO UPDATE SET blocked = excluded.blocked, asked = excluded.asked, reason = excluded.reason WHERE @origin.blocked < excluded.blocked`
		_, err := tx.Exec(ctx, sql, e.Origin, wait.Microseconds(), clean(e.Err.Error()))
		return err
	})
	if err != nil {
		return fmt.Errorf("record that %s asks its clients to wait: %w", e.Origin, err)
	}
	return nil
}

// blocked returns the origins that have failed, and how long each has asked its clients to wait.
func (s *Scheduler) blocked(ctx context.Context) (waits map[string]time.Duration, err error) {
	waits = map[string]time.Duration{}
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, "SELECT origin, asked - @now FROM @origin", nil, func(scan func(...any) error) error {
			var origin string
			var wait int64
			err := scan(&origin, &wait)
			waits[origin] = time.Duration(wait) * time.Microsecond
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read what is known about origins: %w", err)
	}
	return waits, nil
}
