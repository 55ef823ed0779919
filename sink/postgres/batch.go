package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/patch"
)

func (t *target) Begin(context.Context) error { return t.reset() }

// Rollback discards the batch, which was not committed.
func (t *target) Rollback(context.Context) error { return t.reset() }

func (t *target) reset() error {
	t.abandon()
	t.sent, t.sentRows, t.alone, t.looked = 0, 0, t.looked, false
	clear(t.last)
	t.changes, t.unsure = nil, false
	clear(t.expected)
	t.fresh = true
	t.notes, t.backfill = nil, false
	t.replacing.on, t.replacing.begins, t.replacing.forget, t.replacing.remove = false, false, false, false
	t.kinds.puts, t.kinds.deletes, t.kinds.refused = 0, 0, 0
	return t.spool.reset()
}

func (t *target) Apply(ctx context.Context, e *feed.Entity) error {
	if err := t.stage(ctx, e); err != nil {
		return err
	}
	t.advance(ctx)
	return nil
}

func (t *target) stage(ctx context.Context, e *feed.Entity) error {
	key := e.Key()
	if key == "" {
		return sink.ErrNoKey
	}
	switch e.Operation {
	case feed.Put, "":
		if len(t.projections) > 0 {
			return t.putColumns(key, e)
		}
		return t.put(key, e)
	case feed.Delete:
		return t.remove(key, e)
	case feed.Patch:
		if err := t.patch(ctx, key, e); err != nil {
			return &patch.Error{Key: key, ContentID: e.ContentID, Err: err}
		}
		return nil
	}
	return fmt.Errorf("unknown operation %q", e.Operation)
}

// begin begins a row, which replaces earlier rows with the same key.
func (t *target) begin(op byte, key string, e *feed.Entity) {
	n := len(t.spool.entries)
	before, again := t.last[key]
	if again {
		t.spool.entries[before].replaced = true
	}
	t.last[key] = n
	t.fresh = t.fresh && op == 'P' && !again
	t.head(op, key, nil, e)
	t.spool.entries[n].removed = op == 'D'
}

// head appends the fields that all rows have. The reason is nil if the row is not rejected.
func (t *target) head(op byte, key string, reason *string, e *feed.Entity) {
	s := &t.spool
	n := len(s.entries)
	s.begin(len(staged) + len(t.table.contents))
	s.int32(int32(n))
	s.field([]byte{op})
	if reason == nil {
		s.null()
	} else {
		s.text(*reason)
	}
	s.text(asText(key))
	s.text(asText(e.ContentID))
	s.int64((e.LastModified.Unix() - epoch) * int64(time.Second/time.Microsecond))
	if op == 'D' {
		t.kinds.deletes++
	} else {
		t.kinds.puts++
	}
}

const escape = '\x1a' // SUBSTITUTE

// epoch is PostgreSQL's epoch, 2000-01-01, in Unix time.
const epoch = 946684800

// asText escapes s for the type text: each byte that the type cannot hold, and the escape character
// itself, becomes the escape character and two hexadecimal digits.
func asText(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\x1a") {
		return s
	}
	var b []byte
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == 0 || r == escape {
			b = hex.AppendEncode(append(b, escape), []byte{s[i]})
		} else {
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

func (t *target) remove(key string, e *feed.Entity) error {
	t.begin('D', key, e)
	for range t.table.contents {
		t.spool.null()
	}
	return t.spool.finish()
}

func (t *target) put(key string, e *feed.Entity) error {
	body, stream, size, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if size > MaxBody {
		return &sink.TooLargeError{Key: key, ContentID: e.ContentID, Size: size, Limit: MaxBody, Of: "a PostgreSQL value"}
	}
	t.begin('P', key, e)
	t.buf = content.AppendHeaders(t.buf[:0], e.Header)
	t.spool.text(asText(e.ContentType))
	t.spool.field(t.buf)
	if stream == nil {
		t.contents(body, content.IsJSON(e.ContentType) && t.isJSON(body))
		return t.spool.finish()
	}
	t.spool.null()
	n, err := t.spool.stream(stream, size, MaxBody)
	if err != nil {
		return err
	}
	if n > MaxBody {
		return &sink.TooLargeError{Key: key, ContentID: e.ContentID, Size: -1, Limit: MaxBody, Of: "a PostgreSQL value"}
	}
	return t.spool.finish()
}

func (t *target) contents(body []byte, isJSON bool) {
	if isJSON {
		t.spool.field(body)
		t.spool.null()
		return
	}
	t.spool.null()
	t.spool.field(body)
}

// isJSON reports whether PostgreSQL's type json accepts text. The type also limits the depth.
func (t *target) isJSON(text []byte) (ok bool) {
	t.buf, ok = jsonscan.AppendCompact(t.buf[:0], text)
	return ok
}

func (t *target) Commit(ctx context.Context, at feed.Position) error {
	position, err := json.Marshal(at)
	if err != nil {
		return err
	}
	t.complete = t.noted && at.Tail == nil
	refused, err := t.merge(ctx, string(position))
	if err != nil {
		return err
	}
	t.Done()
	t.noted = at.Tail != nil
	t.quarantined += refused
	if refused > 0 {
		t.Log.WarnContext(ctx, "entities were put into quarantine", "table", t.table.schema+"."+quarantineTable, "entities", refused)
	}
	return t.reset()
}
