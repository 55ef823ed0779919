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

// The replication log is written this often while a bridge runs, and in this time at most.
const (
	logEvery   = 30 * time.Second
	logTimeout = 10 * time.Second
)

// A replicationLog is the document in the source that says how far a bridge has come. It
// tells the source's operators; and the bridge, whether the source still is where the feed has
// left it. A source that cannot have it is none the worse for it: that is logged, and no error.
type replicationLog struct {
	source    *couchdb.DB
	target    string
	selection string
	report    *slog.Logger

	mu      sync.Mutex
	session string
	begun   time.Time
	start   json.RawMessage
	meter   *bridge.Meter
	records int64 // of the session
	written time.Time
	refused bool // by the source, which will not change its mind

	known atomic.Pointer[mark]
}

// A mark is a record of the replication log that the source is known to have had when the feed
// was at its place. As long as the source has it, or a later record of the session, its changes
// from there on are all that the feed may lack.
type mark struct {
	Session string          `json:"session"`
	Record  int64           `json:"record"` // of the session; 0 in logs of older versions
	Since   json.RawMessage `json:"since,omitempty"`
}

// errBehind: the source was restored from a backup, or something else has happened to its log.
var errBehind = errors.New("the source does not have what it had: it was restored from a backup, or its replication log was deleted")

// in reports whether a log has the mark.
func (m *mark) in(log *couchdb.Log) bool {
	for _, s := range log.History {
		if s.SessionID == m.Session {
			return s.Records > m.Record || s.Records == m.Record && sameSeq(s.RecordedSeq, m.Since)
		}
	}
	return false
}

func newReplicationLog(source *couchdb.DB, target, selection string, report *slog.Logger) *replicationLog {
	return &replicationLog{source: source, target: target, selection: selection, report: report}
}

// id names the replication after its peers and what it selects (protocol, "Generate
// Replication ID").
func (l *replicationLog) id(source string) string {
	return couchdb.ReplicationID("feedctl", source, l.target, l.selection)
}

// begin notes the session that is logged from now on.
func (l *replicationLog) begin(session string, begun time.Time, start json.RawMessage, m *bridge.Meter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.begun, l.start, l.meter = session, begun, start, m
	l.records, l.written = 0, time.Now()
}

// beginAt changes where the session begins.
func (l *replicationLog) beginAt(start json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = start
}

// read returns the log with an id as the source has it. It is empty if the source has none,
// or does not give it.
func (l *replicationLog) read(ctx context.Context, id string) (*couchdb.Log, error) {
	log, err := l.source.ReplicationLog(ctx, id)
	if errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) {
		return new(couchdb.Log), nil // if it is about the whole database, that is to come
	}
	return log, err
}

// tick writes the log if that was long ago.
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
	if errors.Is(err, couchdb.ErrConflict) { // another wrote it in the meantime
		err = l.put(ctx, recorded)
	}
	if err == nil {
		return
	}
	l.refused = errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) || errors.Is(err, couchdb.ErrNotFound)
	if l.refused {
		l.known.Store(nil) // or what is known would get old
	}
	l.report.Info("the replication log in the source cannot be written: its operators do not see this bridge, which does not see a source that is restored",
		"source", l.source.URL(), "log", "_local/"+l.id(l.source.URL()), "error", err)
}

// put adds a record to the log, unless the source is not the one any more that it was.
func (l *replicationLog) put(ctx context.Context, recorded json.RawMessage) error {
	url := l.source.URL()
	log, err := l.source.ReplicationLog(ctx, l.id(url))
	if err != nil {
		return err
	}
	if known := l.known.Load(); known != nil && !known.in(log) {
		return errBehind
	}
	l.records++ // even if it is not known whether it was written
	session := sessionOf(l.meter.Now(), l.session, l.begun, l.start, recorded)
	session.Records = l.records
	log.Record(session)
	if err := l.source.PutReplicationLog(ctx, log); err != nil {
		return err
	}
	l.known.Store(&mark{Session: l.session, Record: l.records, Since: recorded})
	return nil
}

// sessionOf returns the entry of the replication log.
func sessionOf(p bridge.Progress, id string, begun time.Time, start, recorded json.RawMessage) couchdb.Session {
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
		MissingChecked:   p.Compared,
		MissingFound:     p.Missing,
		DocsRead:         p.Read,
		DocsWritten:      p.Published,
		DocWriteFailures: p.Quarantined,
	}
}
