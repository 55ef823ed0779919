package couchdb

import (
	"bytes"
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

// An origin is what the feed says of the source, from where a reader begins.
type origin struct {
	since   json.RawMessage
	session string // that has come to since
	known   *mark
	log     string // id of the replication log then; "": made of what is known of the feed
	source  string // URL of the database then, if it was another; or empty
	behind  bool   // the source was found not to have what it had
}

// confirm compares the source with what the feed says of it, before its changes are read, and
// decides where to begin (protocol, "Compare Replication Logs"): where the feed is, if the
// source's log says so as well; else at the last record that both know; else at the source's
// beginning. What comes again then is known to the index.
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
		return b.foreign(o.source)
	}
	if o.source != "" || b.config.Moved {
		r.instance = "" // of the one that it was
	}
	var mark *mark
	switch {
	case r.only != nil || o.since == nil:
		return nil
	case at >= 0 && sameSeq(log.History[at].RecordedSeq, o.since):
		mark = markOf(log.History[at])
	case o.known != nil && o.known.in(log):
		mark = o.known
		b.config.Log.Info("reading changes again from the last place that the source confirms", "source", b.config.Source.URL(), "since", seqText(mark.Since))
		r.begin(mark.Since)
	case b.config.Moved:
		r.begin(nil)
	case o.known != nil || len(log.History) > 0:
		r.beginAnew(o.since)
	default:
		back, err := r.isBack(ctx, o.since)
		if err != nil {
			return err
		}
		if back || o.behind {
			r.beginAnew(o.since)
		}
	}
	if own {
		b.log.known.Store(mark)
	}
	return nil
}

// confirming returns the replication log that knows the place where the feed is, and whether
// it has the same id from now on. A feed that was in another store then had another log.
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

// in returns the index of the session that has come to the place in the history of a log, -1 if
// there is none, and whether the log knows the place.
func (o *origin) in(log *couchdb.Log) (at int, known bool) {
	if log == nil {
		return -1, false
	}
	at = slices.IndexFunc(log.History, func(s couchdb.Session) bool { return s.SessionID == o.session })
	return at, at >= 0 || o.known != nil && o.known.in(log)
}

func markOf(s couchdb.Session) *mark {
	return &mark{Session: s.SessionID, Record: s.Records, Since: s.RecordedSeq}
}

func (r *reader) beginAnew(since json.RawMessage) {
	r.bridge.config.Log.Warn("the source is not where the feed has left it: it was restored from a backup, or its replication log was deleted; "+
		"reading it from its beginning and publishing what the feed does not have", "source", r.bridge.config.Source.URL(), "since", seqText(since))
	r.begin(nil)
}

// begin changes where to begin.
func (r *reader) begin(since json.RawMessage) {
	r.since = since
	r.run.BeginAt(since)
	r.bridge.log.beginAt(since)
}

// isBack reports whether the source's changes end before a place, as far as the numbers in
// sequences tell: they count updates, and a source that cannot have a log has nothing better.
func (r *reader) isBack(ctx context.Context, since json.RawMessage) (bool, error) {
	var info couchdb.Info
	if err := r.bridge.config.Source.JSON(ctx, couchdb.Request{Once: true}, &info); err != nil {
		return false, err
	}
	end := seqNumber(info.UpdateSeq)
	return end >= 0 && end < seqNumber(since), nil
}

// reconfirm makes sure that the source still is what it was, after the connection to it was
// lost: its log has what it had, and it has the last revisions that were read. Otherwise the
// error is errBehind, and the reader has to begin from what the feed says.
func (r *reader) reconfirm(ctx context.Context, _ json.RawMessage, _ error) error {
	if known := r.bridge.log.known.Load(); known != nil {
		log, err := r.bridge.log.read(ctx, r.bridge.log.id(r.bridge.config.Source.URL()))
		if err != nil {
			return err
		}
		if !known.in(log) {
			return errBehind
		}
	}
	recent := r.recent.Load()
	if recent == nil {
		return nil
	}
	missing, err := r.bridge.config.Source.RevsDiff(ctx, *recent)
	switch {
	case err != nil && (couchdb.Retryable(err) || ctx.Err() != nil):
		return err
	case len(missing) > 0:
		return errBehind
	}
	return nil // a server that does not answer that is not asked again
}

// maxRecent is how many rows are remembered for [reader.reconfirm].
const maxRecent = 100

// remember remembers the last rows of a batch.
func (r *reader) remember(rows []changes.Row) {
	recent := make(map[string][]string)
	for _, row := range rows[max(0, len(rows)-maxRecent):] {
		if row.Err == nil && row.ID != "" && utf8.ValidString(row.ID) && len(row.Revs) > 0 {
			recent[row.ID] = row.Revs[:1]
		}
	}
	if len(recent) > 0 {
		r.recent.Store(&recent)
	}
}

// seqText returns the text of a sequence.
func seqText(seq json.RawMessage) string {
	var text string
	if json.Unmarshal(seq, &text) == nil {
		return text
	}
	return string(bytes.TrimSpace(seq))
}

// sameSeq reports whether two sequences are the same text.
func sameSeq(a, b json.RawMessage) bool {
	return cmp.Or(seqText(a), "0") == cmp.Or(seqText(b), "0")
}

// seqNumber returns the number at the beginning of a sequence; -1 if there is none.
func seqNumber(seq json.RawMessage) int64 {
	text, _, _ := strings.Cut(seqText(seq), "-")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (b *Bridge) foreign(source string) error {
	return fmt.Errorf("%w: feed %q was filled from %s, and the replication log of %s does not know that: publish to another feed, or use --moved if it is the same database at another place",
		bridge.ErrForeign, b.config.Feed, source, b.config.Source.URL())
}
