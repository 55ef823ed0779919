package feedstore

import (
	"sync"
	"time"
)

// These constants limit how readers are tracked.
const (
	maxSequences = 256
	// sequenceAge is how long a reader is remembered after its last request.
	sequenceAge = 10 * time.Second
)

// sequences recognizes readers that read page after page. A reader is identified by the page that it will
// request next; readers at the same page count as one.
type sequences struct {
	mu     sync.Mutex
	byNext map[sequenceKey]sequence
}

// A sequenceKey is the page that a reader will request next: the body or, if back is set because the reader
// crawls back, the metadata.
type sequenceKey struct {
	pageKey
	back bool
}

type sequence struct {
	steps int
	last  time.Time
}

func (k sequenceKey) after() sequenceKey {
	if k.back {
		k.number--
	} else {
		k.number++
	}
	return k
}

// step records a request for a page. It returns the number of readers if the request is from a reader that
// requested the preceding page before, and otherwise 0.
func (r *sequences) step(at sequenceKey) (readers int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	known, expected := r.byNext[at]
	delete(r.byNext, at)
	next := at.after()
	if other, ok := r.byNext[next]; ok && !expected {
		known = other // another reader has just requested the same page
	}
	if expected {
		known.steps++
	}
	known.last = now
	r.byNext[next] = known
	if len(r.byNext) > maxSequences {
		r.forgetOldest()
	}
	if !expected {
		return 0
	}
	for key, other := range r.byNext {
		switch {
		case now.Sub(other.last) > sequenceAge:
			delete(r.byNext, key)
		case other.steps > 0 && !key.back:
			readers++
		}
	}
	return max(readers, 1)
}

func (r *sequences) forgetOldest() {
	var oldest sequenceKey
	var last time.Time
	for key, other := range r.byNext {
		if last.IsZero() || other.last.Before(last) {
			oldest, last = key, other.last
		}
	}
	delete(r.byNext, oldest)
}
