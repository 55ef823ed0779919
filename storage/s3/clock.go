package s3

import (
	"net/http"
	"sync"
	"time"
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
