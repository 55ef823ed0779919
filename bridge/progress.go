package bridge

import (
	"cmp"
	"sync"
	"time"
)

// Progress holds the counts of a bridge since it was opened.
type Progress struct {
	Rows        int64 `json:"-"`           // rows of the source's changes read
	Compared    int64 `json:"-"`           // revisions in them compared with the feed
	Missing     int64 `json:"-"`           // revisions that the feed did not have
	Read        int64 `json:"-"`           // documents read
	Published   int64 `json:"-"`           // entities published
	Bytes       int64 `json:"-"`           // bytes of their bodies, except streamed ones
	Repeated    int64 `json:"repeated"`    // revisions received that were already in the feed
	Rewinds     int64 `json:"rewinds"`     // sequences of repeated revisions
	Quarantined int64 `json:"quarantined"` // documents and rows put into quarantine
	Superseded  int64 `json:"superseded"`  // revisions replaced before they were read
	Dropped     int64 `json:"-"`           // changes that mean nothing to the feed, such as tombstones of unknown records
	Requests    int64 `json:"-"`           // requests for changes
	// Pending is the source's count of remaining rows, or -1 if it is unknown.
	Pending int64 `json:"-"`
	// LastPoll is when the source last sent a part of its changes, such as a heartbeat, and
	// LastPublish is when entities were last published; zero if that has not happened yet.
	LastPoll, LastPublish time.Time `json:"-"`
	// Since is the position in the source up to which everything is in the feed, and Newest is the
	// newest known position of the source: JSON, or empty if they are not known.
	Since, Newest string `json:"-"`
}

// After returns the sum of p and the progress of an earlier bridge to the same feed.
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
	p.Dropped += earlier.Dropped
	p.Requests += earlier.Requests
	if p.LastPoll.IsZero() {
		p.LastPoll = earlier.LastPoll
	}
	if p.LastPublish.IsZero() {
		p.LastPublish = earlier.LastPublish
	}
	p.Since, p.Newest = cmp.Or(p.Since, earlier.Since), cmp.Or(p.Newest, earlier.Newest)
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
