package couchdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// An origin is where a reader begins, according to the feed's checkpoint.
type origin struct {
	since   json.RawMessage
	session string // that reached since
	known   *mark
	log     string // id of the replication log at that time; "" if not recorded
	source  string // URL of the database at that time, if different; or empty
	behind  bool   // the source does not have changes that it had before
}

// confirm compares the source with the feed's checkpoint before changes are read, and decides
// where to begin (protocol, "Compare Replication Logs"): at the position of the checkpoint if
// the source's log has it; else at the last record that both have; else at the beginning of
// the source. The index recognizes revisions that are read again.
func (r *reader) confirm(ctx context.Context) error {
	b, o := r.bridge, r.origin
	if o.since == nil && o.source == "" || r.only != nil && o.source == "" {
		return nil
	}
	log, own, err := r.confirming(ctx)
	if err != nil {
		return err
	}
	at, known := o.in(log)
	if o.source != "" && !known && !b.config.Moved {
		return fmt.Errorf("%w: feed %q was filled from %s, and the replication log of %s does not have that position: publish to another feed, or use --moved if it is the same database at another URL",
			bridge.ErrForeign, b.config.Feed, o.source, b.config.Source.URL())
	}
	if o.source != "" || b.config.Moved {
		r.instance = "" // it belonged to the old database
	}
	var confirmed *mark
	switch {
	case r.only != nil || o.since == nil:
		return nil
	case at >= 0 && sameSeq(log.History[at].RecordedSeq, o.since):
		known := log.History[at]
		confirmed = &mark{Session: known.SessionID, Record: known.Records, Since: known.RecordedSeq}
	case o.known != nil && o.known.in(log):
		confirmed = o.known
		b.config.Log.Info("reading changes again from the last position in the replication log", "source", b.config.Source.URL(), "since", couchdb.SeqText(o.known.Since))
		r.begin(o.known.Since)
	case b.config.Moved:
		r.begin(nil)
	case o.known != nil || len(log.History) > 0:
		r.restart(o.since)
	default:
		back, err := r.isBack(ctx, o.since)
		if err != nil {
			return err
		}
		if back || o.behind {
			r.restart(o.since)
		}
	}
	if own {
		b.log.known.Store(confirmed)
	}
	return nil
}

// confirming returns the replication log that has the position of the feed's checkpoint, and
// whether its id is the current one. The id differs if the feed was in another store.
func (r *reader) confirming(ctx context.Context) (log *couchdb.Log, own bool, err error) {
	b, o := r.bridge, r.origin
	id := b.log.id(cmp.Or(o.source, b.config.Source.URL()))
	log, err = b.log.read(ctx, id)
	if _, known := o.in(log); err != nil || known || o.log == "" || o.log == id {
		return log, o.source == "", err
	}
	then, err := b.log.read(ctx, o.log)
	if _, known := o.in(then); err != nil || !known {
		return log, o.source == "", err
	}
	return then, false, nil
}

// The method in searches the history of a log for the session that reached the position. It returns
// the session's index, or -1, and whether the log confirms the position.
func (o *origin) in(log *couchdb.Log) (at int, known bool) {
	if log == nil {
		return -1, false
	}
	at = slices.IndexFunc(log.History, func(s couchdb.Session) bool { return s.SessionID == o.session })
	return at, at >= 0 || o.known != nil && o.known.in(log)
}

func (r *reader) restart(since json.RawMessage) {
	r.bridge.config.Log.Warn("source does not match the feed's checkpoint: it was restored from a backup, or its replication log was deleted; "+
		"reading it from the beginning and publishing revisions that are not in the feed", "source", r.bridge.config.Source.URL(), "since", couchdb.SeqText(since))
	r.begin(nil)
}

// begin sets the position at which to begin.
func (r *reader) begin(since json.RawMessage) {
	r.since = since
	r.run.BeginAt(since)
	r.bridge.log.beginAt(since)
}

// isBack reports whether the source's changes end before a position. It compares the numbers at the
// beginning of sequences, which count updates; it is used if the source has no log.
func (r *reader) isBack(ctx context.Context, since json.RawMessage) (bool, error) {
	var info couchdb.Info
	if err := r.bridge.config.Source.JSON(ctx, couchdb.Request{Once: true}, &info); err != nil {
		return false, err
	}
	number := func(seq json.RawMessage) (int64, error) {
		digits, _, _ := strings.Cut(couchdb.SeqText(seq), "-")
		return strconv.ParseInt(digits, 10, 64)
	}
	end, noEnd := number(info.UpdateSeq)
	at, noPosition := number(since)
	return noEnd == nil && noPosition == nil && end < at, nil
}

// verifyAgain verifies, after the connection was lost, that the source still has the last known
// record of its log and the last revisions that were read. Otherwise it returns errBehind, and
// the reader must begin again from the feed's checkpoint.
func (r *reader) verifyAgain(ctx context.Context) error {
	if known := r.bridge.log.known.Load(); known != nil {
		log, err := r.bridge.log.read(ctx, r.bridge.log.id(r.bridge.config.Source.URL()))
		if err != nil {
			return err
		}
		if !known.in(log) {
			return errBehind
		}
	}
	if r.recent == nil {
		return nil
	}
	missing, err := r.bridge.config.Source.RevsDiff(ctx, r.recent)
	switch {
	case err != nil && (couchdb.Retryable(err) || ctx.Err() != nil):
		return err
	case len(missing) > 0:
		return errBehind
	}
	return nil // ignore other errors: the server does not support the request
}

// maxRecent is how many rows are kept for [reader.verifyAgain].
const maxRecent = 100

// remember keeps the revisions of the last rows of a batch.
func (r *reader) remember(rows []changes.Row) {
	recent := make(map[string][]string)
	for _, row := range rows[max(0, len(rows)-maxRecent):] {
		if row.Err == nil && row.ID != "" && utf8.ValidString(row.ID) && len(row.Revs) > 0 {
			recent[row.ID] = row.Revs[:1]
		}
	}
	if len(recent) > 0 {
		r.recent = recent
	}
}

// sameSeq reports whether two sequences are equal.
func sameSeq(a, b json.RawMessage) bool {
	return cmp.Or(couchdb.SeqText(a), "0") == cmp.Or(couchdb.SeqText(b), "0")
}
