package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

const (
	maxPart = 4 << 20  // size of each member of a row except its document, in bytes
	maxRaw  = 64 << 10 // how much is kept of a malformed row, in bytes
)

// errNotRow means that an object in the feed is valid JSON but not a row.
var errNotRow = errors.New("not a row of a changes feed")

// A line is an object in the feed: a row, the end of the feed, or an error of the server.
type line struct {
	row     Row
	hasID   bool
	end     bool // it has a last_seq
	lastSeq json.RawMessage
	pending int64
	code    string // of an error
	reason  string
}

// serverError returns the error of the server that ends the feed, if the object is one.
func (o *line) serverError() error {
	if o.code == "" {
		return nil
	}
	return fmt.Errorf("server ended the feed: %s: %s", o.code, o.reason)
}

// A lineReader reads the objects of a feed.
type lineReader struct {
	json     *jsonscan.Reader
	maxWhole int
	spoolDir string
}

// read reads an object. The line remains valid after further reads.
func (l *lineReader) read() (line, error) {
	out := line{pending: -1}
	err := l.json.Object(func(name []byte) error { return l.member(&out, name) })
	return out, err
}

func (l *lineReader) member(out *line, name []byte) (err error) {
	switch string(name) {
	case `"doc"`:
		return l.doc(&out.row)
	case `"seq"`:
		out.row.Seq, err = l.seq(&out.row)
	case `"id"`:
		out.row.ID, err = l.text(&out.row)
		out.hasID = err == nil
	case `"changes"`:
		out.row.Revs, err = l.revs(&out.row)
	case `"deleted"`:
		var value []byte
		value, err = l.value(&out.row)
		out.row.Deleted = string(value) == "true"
	case `"last_seq"`:
		out.lastSeq, err = l.seq(&out.row)
		out.end = true
	case `"pending"`:
		var value []byte
		value, err = l.value(&out.row)
		if n, invalid := strconv.ParseInt(string(value), 10, 64); invalid == nil && n >= 0 { // it is only informative
			out.pending = n
		}
	case `"error"`:
		out.code, err = l.text(&out.row)
	case `"reason"`:
		out.reason, err = l.text(&out.row)
	default:
		var whole bool
		if _, whole, err = l.json.Value(maxRaw); err == nil && !whole { // a large value is not kept for Resync
			err = l.json.Rest(io.Discard)
		}
	}
	return err
}

// value reads a small value. It is valid until the next call.
func (l *lineReader) value(row *Row) ([]byte, error) {
	b, whole, err := l.json.Value(maxPart)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, fmt.Errorf("%w: a member has more than %d bytes", errNotRow, maxPart)
	}
	row.size += len(b)
	return b, nil
}

// seq reads a sequence, and returns nil for null.
func (l *lineReader) seq(row *Row) (json.RawMessage, error) {
	b, err := l.value(row)
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return bytes.Clone(b), nil
}

func (l *lineReader) text(row *Row) (string, error) {
	b, err := l.value(row)
	if err != nil {
		return "", err
	}
	text, err := jsonscan.Unquote(b)
	if err != nil {
		return "", fmt.Errorf("%w: %.100s is not a string", errNotRow, b)
	}
	return text, nil
}

// revs reads [{"rev":"..."},...].
func (l *lineReader) revs(row *Row) ([]string, error) {
	b, err := l.value(row)
	if err != nil {
		return nil, err
	}
	revs := make([]string, 0, 1)
	for change := range jsonscan.Elements(b) {
		n := len(revs)
		for name, value := range jsonscan.Members(change) {
			if string(name) != `"rev"` {
				continue
			}
			rev, err := jsonscan.Unquote(value)
			if err != nil {
				return nil, fmt.Errorf("%w: a revision is not a string", errNotRow)
			}
			revs = append(revs, rev)
		}
		if len(revs) != n+1 {
			return nil, fmt.Errorf("%w: a change has no revision", errNotRow)
		}
	}
	return revs, nil
}

// doc reads a document, of any size.
func (l *lineReader) doc(row *Row) error {
	row.Doc.Close() // a second document replaces the first
	row.Doc = nil
	doc, err := couchdb.SpoolJSON(l.spoolDir, l.maxWhole, l.json)
	if err != nil || string(doc.Bytes()) == "null" {
		return err
	}
	row.Doc = doc
	row.size += len(doc.Bytes())
	row.Meta, err = doc.Scan()
	return err
}

// check returns an error if the object is not a row.
func (o *line) check() error {
	switch {
	case o.end:
		return fmt.Errorf("%w: unexpected last_seq", errNotRow)
	case !o.hasID:
		return fmt.Errorf("%w: missing document id", errNotRow)
	case len(o.row.Revs) == 0:
		return fmt.Errorf("%w: missing revision", errNotRow)
	}
	return nil
}
