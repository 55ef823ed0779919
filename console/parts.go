package console

import "time"

// Readers knows who reads the feeds.
type Readers interface {
	// Summary returns how many readers of a feed are known, and the lag of the one that is furthest behind.
	Summary(feed string) ReadersSummary
}

// A ReadersSummary says how far the readers of a feed are behind.
type ReadersSummary struct {
	Readers int
	Lag     time.Duration // of the reader that is furthest behind
	Trend   int           // of this lag: 1 if it grows, -1 if it shrinks
}
