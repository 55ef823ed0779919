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
	// clockAge is how long a time received from the server is used before another request is sent
	// for it.
	clockAge = time.Minute
	// dateLag is the most by which the Date header may lag behind: it has whole seconds, and
	// servers update it only once a second.
	dateLag = 2 * time.Second
)

// A clock tracks the server's clock by means of the responses.
type clock struct {
	mu   sync.Mutex
	time time.Time // a lower bound of the server's time
	seen time.Time // when time was received, by the local clock
}

// see updates the clock from the header of a response. If Last-Modified is shortly after Date, the
// Date lags behind.
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
	// Of two lower bounds, use the greater.
	if age := received.Sub(c.seen); c.seen.IsZero() || age > clockAge || date.After(c.time.Add(age)) {
		c.time, c.seen = date, received
	}
}

// now returns the server's time; ok is false if the clock was last updated too long ago.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.seen)
	if c.seen.IsZero() || age > clockAge {
		return time.Time{}, false
	}
	return c.time.Add(age).Truncate(time.Second).UTC(), true
}

// Now implements [storage.Clock] with the Date of the server's responses, in whole seconds. It
// sends a request if there was no response in the last minute.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, s.failed("read clock of", "", err)
	}
	if now, ok := s.clock.now(); ok {
		return now, nil
	}
	err := s.readProbe(ctx) // any response has a Date, even one that says that the object does not exist
	if now, ok := s.clock.now(); ok {
		return now, nil
	}
	if err == nil {
		err = fmt.Errorf("%w: its responses have no Date", storage.ErrUnsafe)
	}
	return time.Time{}, s.failed("read clock of", "", err)
}
