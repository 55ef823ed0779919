// Package readers keeps track of who reads the feeds of a server, and of how far behind each reader is.
//
// A server from which readers pull has no list of its readers. A [Tracker] is a middleware that learns
// about them from requests: consumers that announce themselves send their name and the position that
// they have committed (see [feed.Announcement]); about others it only knows what they request.
// Everything is in memory, bounded, and lost when the process ends. What readers announce is not
// verified.
package readers

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Reader holds what is known about one reader of a feed.
type Reader struct {
	ID   string // stands for the reader in URLs, even after a restart
	Feed string // name of the feed or snapshot
	Name string // the name that the reader announces; "" for a stranger
	// User is the user name in the reader's credentials, "bearer" for a token, or "" without
	// credentials.
	User string
	// Agent is the User-Agent of the last request. Network is where that request came from: "this
	// machine", or a network of 256 addresses (IPv4) or a /48 (IPv6), which may be the network of a
	// proxy.
	Agent, Network string

	First, Seen time.Time // of the first and the last request
	Waiting     int       // requests that wait for something new
	Asked       Asked     // in the last request
	Requests    int64
	Failures    int64 // requests that were answered with an error
	Failed      Failure

	Position Position
	Lag      Lag
}

// Asked is what a reader has requested.
type Asked struct {
	Kind        string // as in [layout.Resource]
	Page        int64  // of the feed or snapshot, if it is a page
	Conditional bool   // whether the request said, in If-None-Match, which state the reader has
}

// A Failure is the last request of a reader that was answered with an error. It is zero if there was
// none.
type Failure struct {
	Status int
	Asked  Asked
	At     time.Time
}

// A Position is how far a reader has read.
type Position struct {
	// Announced is set if the reader has announced the position. Otherwise it is the end of the last
	// page that was sent to it.
	Announced bool
	Page      int64     // 0 if it is not known
	Time      time.Time // Last-Modified of the entity, in whole seconds; zero if it is not known
	ContentID string    // of the entity, if it was announced
	// InSnapshot is set while the reader reads a snapshot, of which it has read SnapshotPages pages.
	InSnapshot    bool
	SnapshotPages int64
	Filling       bool // whether the feed is being read newest first
}

// Known reports whether there is a position in the feed.
func (p Position) Known() bool { return !p.Time.IsZero() && !p.InSnapshot }

// A Lag is how far a reader is behind the newest page of its feed.
type Lag struct {
	// Known is set if the other fields are. It is not set while the reader reads a snapshot, or
	// newest first, or before the newest page of the feed has been seen.
	Known bool
	Time  time.Duration // from the position to the newest entity, in whole seconds
	Pages int64         // from the page of the position to the newest; 0 also if that is not known
	Trend Trend
}

// A Trend says how a lag has changed in the last five minutes.
type Trend int

const (
	Shrinking Trend = iota - 1
	Steady
	Growing
)

// A Summary summarizes all readers of a feed.
type Summary struct {
	Readers int
	// Known is set if the lag of any reader is known. Lag and Trend are those of the reader that is
	// furthest behind.
	Known bool
	Lag   time.Duration
	Trend Trend
}

// A head is the newest page of a feed, as last seen.
type head struct {
	page      int64
	time      time.Time // Last-Modified of the last entity, in whole seconds
	contentID string    // Content-ID of the last entity; "" if it is not known
	checked   time.Time // when the page was last known to be the newest
}

// lag returns how far a position is behind the newest page, without the trend.
func (h head) lag(p Position) Lag {
	if !p.Known() || p.Filling || h.time.IsZero() {
		return Lag{}
	}
	l := Lag{Known: true}
	if p.ContentID != "" && p.ContentID == h.contentID {
		return l
	}
	l.Time = max(0, h.time.Sub(feed.Truncate(p.Time)))
	if p.Page > 0 {
		l.Pages = max(0, h.page-p.Page)
	}
	return l
}
