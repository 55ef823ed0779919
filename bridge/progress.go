package bridge

import (
	"sync"
	"time"
)

// Progress has the counts of a bridge since it was opened.
type Progress struct {
	Rows        int64 // rows of the source's changes read
	Compared    int64 // revisions in them compared with the feed
	Missing     int64 // revisions that the feed did not have
	Read        int64 // documents read
	Published   int64 // entities published
	Bytes       int64 // bytes of their bodies, except streamed ones
	Repeated    int64 // revisions received that were already in the feed
	Rewinds     int64 // sequences of repeated revisions
	Quarantined int64 // documents and rows put into quarantine
	Superseded  int64 // revisions replaced before they were read
	Requests    int64 // requests for changes
	// Pending is the source's count of remaining rows, or -1 if it is unknown.
	Pending int64
	// LastPoll is when the source last sent a part of its changes, such as a heartbeat, and
	// LastPublish is when entities were last published; zero if that has not happened yet.
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

// A Meter holds the progress of a bridge. Its methods may be called concurrently.
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
