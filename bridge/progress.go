package bridge

import (
	"sync"
	"time"
)

// Progress is how far a bridge has come since it was opened.
type Progress struct {
	Rows        int64 // of the source's changes that were read
	Compared    int64 // revisions in them that were looked for in the feed
	Missing     int64 // those that the feed did not have
	Read        int64 // documents that were read
	Published   int64 // entities that are in the feed
	Bytes       int64 // of their bodies, as far as they were in memory
	Repeated    int64 // revisions that the source sent, and the feed had already
	Rewinds     int64 // how often it began to send such
	Quarantined int64 // documents and rows that were put into quarantine
	Superseded  int64 // revisions that were replaced before they were read
	Requests    int64 // for changes
	// Pending is how many rows are still to come, as far as the source says; -1 if it does not.
	Pending int64
	// LastPoll is when the source last sent something of its changes, if only a heartbeat, and
	// LastPublish when entities last came into the feed; zero if that has not happened yet.
	LastPoll, LastPublish time.Time
}

// After returns the progress of a bridge together with that of an earlier one to the same feed.
func (p Progress) After(earlier Progress) Progress {
	p.Rows += earlier.Rows
	p.Compared += earlier.Compared
	p.Missing += earlier.Missing
	p.Read += earlier.Read
	p.Published += earlier.Published
	p.Bytes += earlier.Bytes
	p.Repeated += earlier.Repeated
	p.Rewinds += earlier.Rewinds
	p.Quarantined += earlier.Quarantined
	p.Superseded += earlier.Superseded
	p.Requests += earlier.Requests
	if p.LastPoll.IsZero() {
		p.LastPoll = earlier.LastPoll
	}
	if p.LastPublish.IsZero() {
		p.LastPublish = earlier.LastPublish
	}
	return p
}

// A Meter counts. Its methods may be called concurrently.
type Meter struct {
	mu       sync.Mutex
	progress Progress
}

// Count changes the progress.
func (m *Meter) Count(change func(p *Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.progress)
}

// Now returns the progress so far.
func (m *Meter) Now() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.progress
}
