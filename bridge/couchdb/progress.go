package couchdb

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

// Progress is how far a bridge has come since it was opened.
type Progress struct {
	Rows        int64 // of the changes feed that were read
	Read        int64 // documents that were read
	Published   int64 // entities that are in the feed
	Bytes       int64 // of their bodies, as far as they were in memory
	Repeated    int64 // revisions that the source sent, and the feed has already
	Rewinds     int64 // how often it began to send such
	Quarantined int64 // documents and rows that were put into quarantine
	Superseded  int64 // revisions that gave way to others before they were read
	Requests    int64 // for the changes feed
	// Pending is how many rows are still to come, as far as the source says; -1 if it
	// does not.
	Pending int64
	// LastPoll is when the source last sent something of its changes, if only a heartbeat,
	// and LastPublish when the feed last got entities; zero if that has not happened yet.
	LastPoll, LastPublish time.Time
}

// A Report is what a bridge did, in the terms of the protocol ("Replication Completed").
type Report struct {
	Progress
	// NoChanges: there was nothing new.
	NoChanges bool
	// Log has the session at the head of its history.
	Log couchdb.Log
}

// A meter counts. Its methods may be called concurrently.
type meter struct {
	mu       sync.Mutex
	progress Progress
	checked  int64 // revisions that were looked for in the feed
	found    int64 // those of them that were not there
}

func (m *meter) count(change func(p *Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.progress)
}

func (m *meter) compared(revisions, missing int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked += revisions
	m.found += missing
}

func (m *meter) now() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.progress
}

// session returns the entry of the replication log.
func (m *meter) session(id string, begun time.Time, start, recorded json.RawMessage) couchdb.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if start == nil {
		start = json.RawMessage("0")
	}
	if recorded == nil {
		recorded = start
	}
	return couchdb.Session{
		SessionID:        id,
		StartTime:        couchdb.FormatTime(begun),
		EndTime:          couchdb.FormatTime(time.Now()),
		StartLastSeq:     start,
		EndLastSeq:       recorded,
		RecordedSeq:      recorded,
		MissingChecked:   m.checked,
		MissingFound:     m.found,
		DocsRead:         m.progress.Read,
		DocsWritten:      m.progress.Published,
		DocWriteFailures: m.progress.Quarantined,
	}
}
