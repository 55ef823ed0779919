package feedstore

import (
	"sync"
	"time"
)

// Limits of what is remembered of readers.
const (
	maxSequences = 256
	// sequenceAge is for how long a reader that does not come back counts.
	sequenceAge = 10 * time.Second
)

// sequences recognize readers that go from page to page. A reader has no name: it is
// known by the page that it will ask for next. Readers at the same place are one.
type sequences struct {
	mu     sync.Mutex
	byNext map[sequenceKey]sequence
}

// A sequenceKey is the page that a reader will ask for next: for its body, or going
// back for its metadata.
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

// step notes that a reader asks for a page. It returns how many readers there are
// if this one came from the page before, and otherwise 0.
func (r *sequences) step(at sequenceKey) (readers int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	known, expected := r.byNext[at]
	delete(r.byNext, at)
	next := at.after()
	if other, ok := r.byNext[next]; ok && !expected {
		known = other // another reader was here just before
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
