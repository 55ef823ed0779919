package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
)

// The interval at which a running bridge writes the replication log, and the limit for one write.
const (
	logEvery   = 30 * time.Second
	logTimeout = 10 * time.Second
)

// A replicationLog is the document in the source in which the bridge records its progress. It
// informs the source's operators, and lets the bridge detect that the source was restored. A source
// that refuses the log can still be read: the refusal is logged, and is not an error.
type replicationLog struct {
	source    *couchdb.DB
	target    string
	selection string
	report    *slog.Logger
	meter     *bridge.Meter

	mu      sync.Mutex
	session string
	begun   time.Time
	start   json.RawMessage
	records int64 // of the session
	written time.Time
	refused bool // by the source, permanently

	known atomic.Pointer[mark]
}

// A mark is a record that the replication log had when the feed was at the position of the record.
// While the source has this record, or a later one of the same session, only changes after that
// position can be missing from the feed.
type mark struct {
	Session string          `json:"session"`
	Record  int64           `json:"record"` // of the session; 0 in logs of older versions
	Since   json.RawMessage `json:"since,omitempty"`
}

// errBehind means that the source was restored from a backup, or that its log was lost.
var errBehind = errors.New("source does not have changes that it had before: it was restored from a backup, or its replication log was deleted")

// in reports whether a log has the mark.
func (m *mark) in(log *couchdb.Log) bool {
	for _, s := range log.History {
		if s.SessionID == m.Session {
			return s.Records > m.Record || s.Records == m.Record && sameSeq(s.RecordedSeq, m.Since)
		}
	}
	return false
}

// id returns the id of the replication from source, which depends on its peers and its
// selection (protocol, "Generate Replication ID").
func (l *replicationLog) id(source string) string {
	return couchdb.ReplicationID("feedctl", source, l.target, l.selection)
}

// begin sets the session to log.
func (l *replicationLog) begin(session string, begun time.Time, start json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.begun, l.start = session, begun, start
	l.records, l.written = 0, time.Now()
}

// beginAt sets the position at which the session begins.
func (l *replicationLog) beginAt(start json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = start
}

// read reads the log with the given id from the source. The log is empty if the source has none or
// refuses to send it.
func (l *replicationLog) read(ctx context.Context, id string) (*couchdb.Log, error) {
	log, err := l.source.ReplicationLog(ctx, id)
	if errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) {
		return new(couchdb.Log), nil // if the whole database is forbidden, later requests will fail
	}
	return log, err
}

// tick writes the log if it was last written at least logEvery ago.
func (l *replicationLog) tick(ctx context.Context, recorded json.RawMessage) {
	l.mu.Lock()
	due := time.Since(l.written) >= logEvery
	l.mu.Unlock()
	if due {
		l.write(ctx, recorded)
	}
}

// write writes the log.
func (l *replicationLog) write(ctx context.Context, recorded json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = time.Now()
	if l.refused {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	err := l.put(ctx, recorded)
	if errors.Is(err, couchdb.ErrConflict) { // written by another client in the meantime
		err = l.put(ctx, recorded)
	}
	if err == nil {
		return
	}
	l.refused = errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) || errors.Is(err, couchdb.ErrNotFound)
	if l.refused {
		l.known.Store(nil) // it would become outdated
	}
	l.report.Info("cannot write replication log in source: its operators do not see this bridge, and a restored source is not detected",
		"source", l.source.URL(), "log", "_local/"+l.id(l.source.URL()), "error", err)
}

// put adds a record to the log. It returns errBehind if the last known record is missing.
func (l *replicationLog) put(ctx context.Context, recorded json.RawMessage) error {
	url := l.source.URL()
	log, err := l.source.ReplicationLog(ctx, l.id(url))
	if err != nil {
		return err
	}
	if known := l.known.Load(); known != nil && !known.in(log) {
		return errBehind
	}
	l.records++ // even if the outcome of the write is unknown
	session := sessionOf(l.meter.Now(), l.session, l.begun, l.start, recorded)
	session.Records = l.records
	log.Record(session)
	if err := l.source.PutReplicationLog(ctx, log); err != nil {
		return err
	}
	l.known.Store(&mark{Session: l.session, Record: l.records, Since: recorded})
	return nil
}

// sessionOf returns the entry of a session in the replication log.
func sessionOf(p bridge.Progress, id string, begun time.Time, start, recorded json.RawMessage) couchdb.Session {
	return couchdb.Session{
		SessionID:        id,
		StartTime:        couchdb.FormatTime(begun),
		EndTime:          couchdb.FormatTime(time.Now()),
		StartLastSeq:     start,
		EndLastSeq:       recorded,
		RecordedSeq:      recorded,
		MissingChecked:   p.Compared,
		MissingFound:     p.Missing,
		DocsRead:         p.Read,
		DocsWritten:      p.Published,
		DocWriteFailures: p.Quarantined,
	}
}
