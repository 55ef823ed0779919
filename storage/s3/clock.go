package s3

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/storage"
)

const (
	// clockAge is how long the server is not asked again.
	clockAge = time.Minute
	// dateLag is how far the Date header may lag behind: it has whole seconds,
	// and servers make it anew once a second only.
	dateLag = 2 * time.Second
)

// A clock is the server's, as its answers tell.
type clock struct {
	mu   sync.Mutex
	time time.Time // what it was, at least
	seen time.Time // when, by our clock
}

// see reads the time from an answer. An object that was modified a moment after
// the Date shows that this lags.
func (c *clock) see(h http.Header) {
	received := time.Now()
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err == nil && modified.After(date) && modified.Sub(date) <= dateLag {
		date = modified
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Of two answers of which each says what time it was at least, the one counts
	// that says more.
	if age := received.Sub(c.seen); c.seen.IsZero() || age > clockAge || date.After(c.time.Add(age)) {
		c.time, c.seen = date, received
	}
}

// now returns the time unless it was seen too long ago.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.seen)
	if c.seen.IsZero() || age > clockAge {
		return time.Time{}, false
	}
	return c.time.Add(age).Truncate(time.Second).UTC(), true
}

// Now implements [storage.Clock]: the Date of the server's answers, in whole
// seconds. It sends a request if there was none for a minute.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, s.failed("ask for the time at", "", err)
	}
	if now, ok := s.clock.now(); ok {
		return now, nil
	}
	// Any answer will do, also that there is no such object.
	_, err := s.remembered(ctx)
	if now, ok := s.clock.now(); ok {
		return now, nil
	}
	if err == nil {
		err = fmt.Errorf("%w: its answers have no Date", storage.ErrUnsafe)
	}
	return time.Time{}, s.failed("ask for the time at", "", err)
}
