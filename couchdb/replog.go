package couchdb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// MaxHistory is how many sessions a replication log keeps, as in CouchDB.
const MaxHistory = 50

// logVersion is the replication_id_version of CouchDB 2.x and 3.x.
const logVersion = 4

// A Log is a replication log: the document _local/<replication id>, which both peers of a
// replication hold (protocol, "Retrieve Replication Logs from Source and Target"). Sequences are
// opaque JSON.
type Log struct {
	ID            string          `json:"_id,omitempty"`
	Rev           string          `json:"_rev,omitempty"`
	History       []Session       `json:"history"` // newest first
	Version       int             `json:"replication_id_version"`
	SessionID     string          `json:"session_id"`
	SourceLastSeq json.RawMessage `json:"source_last_seq"`
}

// A Session is an entry in a replication log, for one run of a replicator. Its times are formatted
// by [FormatTime].
type Session struct {
	SessionID        string          `json:"session_id"`
	StartTime        string          `json:"start_time"`
	EndTime          string          `json:"end_time"`
	StartLastSeq     json.RawMessage `json:"start_last_seq"`
	EndLastSeq       json.RawMessage `json:"end_last_seq"`
	RecordedSeq      json.RawMessage `json:"recorded_seq"`
	MissingChecked   int64           `json:"missing_checked"`
	MissingFound     int64           `json:"missing_found"`
	DocsRead         int64           `json:"docs_read"`
	DocsWritten      int64           `json:"docs_written"`
	DocWriteFailures int64           `json:"doc_write_failures"`
	// Records is how many times the session was recorded. It is missing in sessions of CouchDB's
	// own replicator.
	Records int64 `json:"records,omitempty"`
}

// FormatTime formats a time for a replication log (RFC 2822, in GMT).
func FormatTime(t time.Time) string { return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT") }

// Record puts s at the head of the history, replacing an earlier record of the same session, and
// removes the oldest sessions beyond MaxHistory. A nil sequence is recorded as 0, the beginning.
func (l *Log) Record(s Session) {
	for _, seq := range [...]*json.RawMessage{&s.StartLastSeq, &s.EndLastSeq, &s.RecordedSeq} {
		if *seq == nil {
			*seq = json.RawMessage("0")
		}
	}
	history := slices.DeleteFunc(l.History, func(old Session) bool { return old.SessionID == s.SessionID })
	l.History = slices.Insert(history, 0, s)
	l.History = l.History[:min(len(l.History), MaxHistory)]
	l.SessionID = s.SessionID
	l.SourceLastSeq = s.RecordedSeq
	l.Version = logVersion
}

// ReplicationLog reads the replication log with this id, without retries. If there is none, it
// returns a new Log without history. The error matches ErrNotFound if the database does not exist.
func (db *DB) ReplicationLog(ctx context.Context, id string) (*Log, error) {
	l := new(Log)
	var no *Error
	switch err := db.JSON(ctx, Request{Path: DocPath("_local/" + id), Once: true}, l); {
	case errors.Is(err, ErrNotFound) && errors.As(err, &no) && !no.noDatabase():
		l = &Log{Version: logVersion}
	case err != nil:
		return nil, err
	}
	l.ID = "_local/" + id
	return l, nil
}

// PutReplicationLog writes l, which must come from ReplicationLog, and sets l.Rev to the new
// revision. If another client has written the log in the meantime, the error matches ErrConflict,
// provided the server compares revisions (see [DB.PutLocal]). After any other error, the log may or
// may not have been written. In either case, read the log again.
func (db *DB) PutReplicationLog(ctx context.Context, l *Log) error {
	rev, err := db.PutLocal(ctx, strings.TrimPrefix(l.ID, "_local/"), l)
	if err == nil {
		l.Rev = rev
	}
	return err
}

// SeqText returns the text of a sequence as it is written in queries: a string without its quotes,
// or other JSON unchanged.
func SeqText(seq json.RawMessage) string {
	seq = bytes.TrimSpace(seq)
	if text, err := jsonscan.Unquote(seq); err == nil {
		return text
	}
	return string(seq)
}

// ReplicationID returns the id of the replication described by parts: 32 hexadecimal digits of a
// hash (protocol, "Generate Replication ID"). The order of parts matters. Parts should not contain
// credentials, since new credentials would then begin another replication.
func ReplicationID(parts ...string) string {
	// JSON distinguishes ("ab", "c") from ("a", "bc").
	text, _ := json.Marshal(parts) // strings can always be encoded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
