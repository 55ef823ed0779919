package main

import "time"

// The types in this file are what the outbox commands print with --json. They are a
// contract, as those in json.go.

// outboxMovedJSON is printed by "outbox run" when it ends, in an array.
type outboxMovedJSON struct {
	Feed        string `json:"feed"`
	Moved       int64  `json:"moved"` // rows, by this process
	Bytes       int64  `json:"bytes"` // of their bodies
	Quarantined int64  `json:"quarantined"`
}

// outboxStatusJSON is printed by "outbox status".
type outboxStatusJSON struct {
	Feeds []outboxFeedJSON `json:"feeds"`
	// Transaction is the oldest open one that has written to the outbox, if it began
	// more than a second ago.
	Transaction *outboxTransactionJSON `json:"transaction,omitempty"`
}

type outboxFeedJSON struct {
	Feed        string     `json:"feed"`
	Waiting     int64      `json:"waiting"`    // rows that are committed and not moved
	Bytes       int64      `json:"bytes"`      // of their bodies
	LagSeconds  float64    `json:"lagSeconds"` // since the oldest of them was inserted
	Quarantined int64      `json:"quarantined"`
	Runner      string     `json:"runner,omitempty"` // host, process and a random name
	Until       *time.Time `json:"until,omitempty"`  // its lease runs out unless it is renewed
	Destination string     `json:"destination,omitempty"`
	// Table is the one whose changes go to the feed, if there is one.
	Table *outboxTableJSON `json:"table,omitempty"`
}

type outboxTableJSON struct {
	Name      string   `json:"name"`                // qualified, and quoted as in SQL
	Gone      bool     `json:"gone,omitempty"`      // it was dropped
	Uncovered []string `json:"uncovered,omitempty"` // partitions that came after it was attached
}

type outboxTransactionJSON struct {
	PID         int       `json:"pid,omitempty"`
	Prepared    string    `json:"prepared,omitempty"` // identifier of a prepared transaction
	Since       time.Time `json:"since"`
	State       string    `json:"state"`
	User        string    `json:"user,omitempty"`
	Application string    `json:"application,omitempty"`
}

// outboxCaptureJSON is printed by "outbox attach" and "outbox detach".
type outboxCaptureJSON struct {
	Table string `json:"table,omitempty"`
	Feed  string `json:"feed,omitempty"`
	// Snapshot was made of the table's contents, if that was wanted.
	Snapshot *snapshotJSON `json:"snapshot,omitempty"`
}
