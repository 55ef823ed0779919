package against

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	kintosink "github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/patch"
)

// findCopy reports whether the items are a copy of the feed, and sets the key of each item to the key that
// the feed has for it. In a source, and for a record of Kinto in a copy, this is the id of the item.
func (t *tables) findCopy(target bool) (bool, error) {
	const origin = "SELECT EXISTS (SELECT 1 FROM items JOIN state ON state.key = items.id WHERE etag(state.headers) = items.version)"
	const copied = "SELECT EXISTS (SELECT 1 FROM items JOIN state ON state.key = items.key WHERE items.content_id <> '' AND items.content_id = state.content_id)"
	isOrigin, err := t.ask(origin)
	if err != nil {
		return false, err
	}
	isCopied, err := t.ask(copied)
	if err != nil {
		return false, err
	}
	if !isOrigin && (target || isCopied) {
		return true, sqlitex.ExecuteTransient(t.conn, "UPDATE items SET key = id WHERE key <> id AND id IN (SELECT key FROM state)", nil)
	}
	return false, sqlitex.ExecuteTransient(t.conn, "UPDATE items SET key = id WHERE key <> id", nil)
}

func (t *tables) ask(query string) (bool, error) {
	s, err := t.conn.Prepare(query)
	if err != nil {
		return false, err
	}
	return sqlitex.ResultBool(s)
}

// A side reads one side of the comparison: the rows of a table, in the order of their keys.
type side struct {
	rows *sqlite.Stmt
	more bool
	key  string
}

// side returns the rows of a table as the columns key, content_id, version, as_is and id, and the body.
func (t *tables) side(table, columns, order string) (*side, error) {
	body := "NULL"
	if t.deep {
		body = fmt.Sprintf("CASE WHEN octet_length(body) <= %d THEN CAST(body AS BLOB) END", maxBody)
	}
	rows, err := t.conn.Prepare(fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s", columns, body, table, order))
	return &side{rows: rows}, err
}

func (s *side) next() (err error) {
	if s.more, err = s.rows.Step(); s.more {
		s.key = s.rows.ColumnText(0)
	}
	return err
}

func (s *side) contentID() string { return s.rows.ColumnText(1) }

// version returns the ETag of an entity in the feed, or the version of an item.
func (s *side) version() string { return s.rows.ColumnText(2) }

// asIs and id return the columns as_is and id of an item.
func (s *side) asIs() bool { return s.rows.ColumnBool(3) }
func (s *side) id() string { return s.rows.ColumnText(4) }

// body returns the body, or nil if it is too large to be compared.
func (s *side) body() []byte {
	const column = 5
	if s.rows.ColumnIsNull(column) {
		return nil
	}
	body := make([]byte, s.rows.ColumnLen(column))
	s.rows.ColumnBytes(column, body)
	return body
}

// diff adds the differences to a report. Unless the source is a copy, keys that it does not cover are left
// out.
func (t *tables) diff(ctx context.Context, covers func(key string) bool, r *Report) (err error) {
	t.conn.SetInterrupt(ctx.Done())
	defer t.conn.SetInterrupt(nil)
	in, err := t.side(table, "key, content_id, etag(headers), FALSE, key", "key")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.rows.Reset()) }()
	of, err := t.side("items", "key, content_id, version, as_is, id", "key, id")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, of.rows.Reset()) }()
	compare := t.compareSource
	if r.Copy {
		compare = t.compareCopy
	}
	err = errors.Join(in.next(), of.next())
	for err == nil && (in.more || of.more) {
		d := Difference{Key: in.key, Kind: extra}
		onlyFeed, onlySource := in.more && (!of.more || in.key < of.key), of.more && (!in.more || of.key < in.key)
		switch {
		case onlyFeed && !r.Copy && !covers(in.key):
			err = in.next()
			continue
		case onlySource:
			d = Difference{Key: of.key, Kind: missing}
		case !onlyFeed:
			d.Kind, err = compare(in, of)
		}
		if !onlySource {
			d.Feed = in.shown(r.Copy)
			r.Keys++
		}
		if !onlyFeed {
			d.Source = of.shown(r.Copy)
			r.Items++
		}
		if d.Kind != "" && err == nil {
			r.add(d)
		}
		if !onlySource && err == nil {
			err = in.next()
		}
		if !onlyFeed && err == nil {
			err = of.next()
		}
	}
	return err
}

// shown returns the version that a report shows for a row.
func (s *side) shown(copied bool) string {
	if copied {
		return cmp.Or(s.contentID(), s.version())
	}
	return s.version()
}

// compareSource returns the kind of the difference between two rows with the same key, or "" if there is
// none.
func (t *tables) compareSource(in, of *side) (string, error) {
	switch {
	case in.version() != of.version():
		return version, nil
	case t.deep:
		return compareBodies(in.body(), of.body()), nil
	}
	return "", nil
}

// compareCopy does the same as compareSource for a row of a copy.
func (t *tables) compareCopy(in, of *side) (string, error) {
	same := in.contentID() != "" && in.contentID() == of.contentID()
	unknown := in.contentID() == "" || of.contentID() == "" && !of.asIs() // as in snapshots
	if t.deep {
		return compareContents(in, of, same, unknown), nil
	}
	switch {
	case same:
		return "", nil
	case unknown || kintosink.StampOf(in.version()) != 0:
		return "", fmt.Errorf("%q: %w", in.key, ErrNoVersion)
	}
	return version, nil
}

// compareContents compares the bodies of two rows if their versions are the same or unknown, or if the
// entity is a record of Kinto.
func compareContents(in, of *side, same, unknown bool) string {
	content, record := in.body(), of.body()
	if record == nil {
		return body
	}
	c := kintosink.CopyOf(of.id(), record)
	published, ok := kintosink.Published(in.key, in.version(), content)
	switch {
	case same, unknown && !ok:
		return compareBodies(content, c.Body)
	case ok:
		return compareBodies(published, c.Record)
	}
	return version
}

// compareBodies returns "" if two bodies are equal, as JSON values or as bytes, and otherwise the kind of
// the difference.
func compareBodies(a, b []byte) string {
	if a != nil && b != nil && (bytes.Equal(a, b) || patch.Equal(a, b)) {
		return ""
	}
	return body
}
