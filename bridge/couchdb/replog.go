package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

// The replication log is written this often while a bridge runs, and in this time at most.
const (
	logEvery   = 30 * time.Second
	logTimeout = 10 * time.Second
)

// A replicationLog is the document in the source that says how far a bridge has come. It
// tells the source's operators; the bridge itself believes the feed. So whatever goes
// wrong with it is logged, and no error.
type replicationLog struct {
	source *couchdb.DB
	id     string
	report *slog.Logger

	session string
	begun   time.Time
	start   json.RawMessage
	meter   *meter

	log     *couchdb.Log // as the source has it; nil before it was read
	written time.Time
	refused bool // by the source, which will not change its mind
}

// newReplicationLog names the replication after its peers and what it selects (protocol,
// "Generate Replication ID").
func newReplicationLog(source *couchdb.DB, target, selection string, report *slog.Logger) *replicationLog {
	return &replicationLog{
		source: source, report: report,
		id: couchdb.ReplicationID("feedctl", source.URL(), target, selection),
	}
}

// begin notes the session that is logged from now on.
func (l *replicationLog) begin(session string, begun time.Time, start json.RawMessage, m *meter) {
	l.session, l.begun, l.start, l.meter = session, begun, start, m
	l.written = begun
}

// tick writes the log if that was long ago.
func (l *replicationLog) tick(ctx context.Context, recorded json.RawMessage) {
	if time.Since(l.written) >= logEvery {
		l.write(ctx, recorded)
	}
}

// write writes the log.
func (l *replicationLog) write(ctx context.Context, recorded json.RawMessage) {
	l.written = time.Now()
	if l.refused {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	err := l.put(ctx, recorded)
	if errors.Is(err, couchdb.ErrConflict) { // another wrote it: what we know of it is old
		l.log = nil
		err = l.put(ctx, recorded)
	}
	if err == nil {
		return
	}
	l.log = nil
	l.refused = errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) || errors.Is(err, couchdb.ErrNotFound)
	l.report.Info("the replication log in the source cannot be written: its operators do not see this bridge, and nothing else is lost",
		"source", l.source.URL(), "log", "_local/"+l.id, "error", err)
}

func (l *replicationLog) put(ctx context.Context, recorded json.RawMessage) (err error) {
	if l.log == nil {
		if l.log, err = l.source.ReplicationLog(ctx, l.id); err != nil {
			return err
		}
	}
	l.log.Record(l.meter.session(l.session, l.begun, l.start, recorded))
	return l.source.PutReplicationLog(ctx, l.log)
}
