// Package readers keeps track of the readers of a server's feeds, and of how far behind each reader is.
//
// A server from which readers pull has no list of its readers. A [Tracker] is a middleware that learns
// about them from requests: consumers that announce themselves send their name and the position that
// they have committed (see [feed.Announcement]); of other readers, only the requests are known. All
// information is kept in memory, which is bounded, and is lost when the process ends. What readers
// announce is not verified.
package readers

import (
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Reader holds the information about one reader of a feed.
type Reader struct {
	ID   string // identifies the reader in URLs, even after a restart
	Feed string // name of the feed or snapshot
	Name string // the name that the reader announces; "" for a stranger
	// User is the user name in the reader's credentials, "bearer" for a token, or "" without
	// credentials.
	User string
	// Agent is the User-Agent of the last request. Network is the network from which that request came:
	// "this machine", or a network of 256 addresses (IPv4) or a /48 (IPv6), which may be the network of
	// a proxy.
	Agent, Network string

	First, Seen time.Time // times of the first and the last request
	Waiting     int       // number of requests that wait for the feed to change
	Asked       Asked     // in the last request
	Requests    int64
	Failures    int64 // number of requests that were answered with an error
	Failed      Failure

	Position Position
	Lag      Lag
}

// Asked describes a request of a reader.
type Asked struct {
	Kind        string // as in [layout.Resource]
	Page        int64  // number of a page of the feed or snapshot, if a page was requested
	Conditional bool   // whether the request says, in If-None-Match, which version the reader has
}

// A Failure describes the last request of a reader that was answered with an error. It is zero if there
// was no such request.
type Failure struct {
	Status int
	Asked  Asked
	At     time.Time
}

// A Position is how far a reader has read.
type Position struct {
	// Announced means that the reader has announced the position. Otherwise, the position is the end of
	// the last page that was sent to the reader.
	Announced bool
	Page      int64     // 0 if it is not known
	Time      time.Time // Last-Modified of the entity, in whole seconds; zero if it is not known
	ContentID string    // of the entity, if it was announced
	// InSnapshot means that the reader is reading a snapshot, of which it has read SnapshotPages pages.
	InSnapshot    bool
	SnapshotPages int64
	Filling       bool // whether the feed is being read newest first
}

// Known reports whether p is a known position in the feed.
func (p Position) Known() bool { return !p.Time.IsZero() && !p.InSnapshot }

// A Lag is how far a reader is behind the newest page of its feed.
type Lag struct {
	// Known means that the other fields are set. It is false while the reader reads a snapshot, or
	// newest first, or before the newest page of the feed has been seen.
	Known bool
	Time  time.Duration // from the position to the newest entity, in whole seconds
	Pages int64         // from the page of the position to the newest page; also 0 if that is not known
	Trend Trend
}

// A Trend is the direction in which a lag has changed in the last five minutes.
type Trend int

const (
	Shrinking Trend = iota - 1
	Steady
	Growing
)

// A Summary summarizes all readers of a feed.
type Summary struct {
	Readers int
	// Known means that the lag of at least one reader is known. Lag and Trend are those of the reader
	// that is furthest behind.
	Known bool
	Lag   time.Duration
	Trend Trend
}

// A head describes the newest page of a feed, as last seen.
type head struct {
	page      int64
	time      time.Time // Last-Modified of the last entity, in whole seconds
	contentID string    // Content-ID of the last entity; "" if it is not known
	checked   time.Time // when the page was last known to be the newest page
}

// lag returns how far the position p is behind the newest page, without the trend.
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
