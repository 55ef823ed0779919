package consumer

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Retention is what a server says about a feed in the response for a page that was pruned. Its zero
// value means that the server said nothing.
type Retention struct {
	KeepAge  time.Duration // how long entities are kept, or 0
	Snapshot string        // URL of the newest snapshot, or empty
}

// maxKeepAge is the longest time that a Duration can hold; longer ones are reduced to it.
const maxKeepAge = time.Duration(math.MaxInt64)

// retentionOf returns the Retention in the response for a page that is gone.
func retentionOf(err error) Retention {
	var status *StatusError
	if !errors.As(err, &status) {
		return Retention{}
	}
	keep := min(max(status.Problem.KeepAgeSeconds, 0), int64(maxKeepAge/time.Second))
	return Retention{time.Duration(keep) * time.Second, status.Problem.Snapshot}
}

// String returns text to append to an error message.
func (r Retention) String() string {
	text := ""
	const day = 24 * time.Hour
	switch {
	case r.KeepAge > day && r.KeepAge%day == 0:
		text = fmt.Sprintf("; the feed keeps entities for %d days", r.KeepAge/day)
	case r.KeepAge > 0:
		text = fmt.Sprintf("; the feed keeps entities for %v", r.KeepAge)
	}
	if r.Snapshot != "" {
		text += "; its newest snapshot is " + oneLine(shown(r.Snapshot))
	}
	return text
}
