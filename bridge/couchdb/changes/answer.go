package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// errLimit means that Options.Limit rows have been read.
var errLimit = errors.New("limit reached")

// answer reads a response to its end, and reports whether it has the last sequence of
// the feed.
func (r *run) answer() (end bool, err error) {
	if r.kind == Continuous {
		return r.continuous()
	}
	json := r.lines.json
	var last line // the members other than the rows
	err = json.Object(func(name []byte) error {
		if string(name) != `"results"` {
			return r.lines.member(&last, name)
		}
		return json.Array(func() error {
			_, err := r.line()
			return err
		})
	})
	if err != nil {
		return false, err
	}
	if last.code != "" {
		return false, &serverError{last.code, last.reason}
	}
	if last.end {
		r.end(&last)
	}
	return last.end, nil
}

// continuous reads the objects of a continuous feed.
func (r *run) continuous() (end bool, err error) {
	for !end && err == nil {
		if _, err = r.lines.json.Peek(); err == io.EOF {
			return false, nil
		}
		if err == nil {
			end, err = r.line()
		}
	}
	return end, err
}

// line reads an object, and reports whether it is the end of the feed.
func (r *run) line() (end bool, err error) {
	r.lines.json.Mark()
	l, err := r.lines.read()
	if err == nil {
		switch {
		case l.end && !l.hasID && r.kind == Continuous:
			r.end(&l)
			return true, nil
		case l.code != "" && !l.hasID:
			return false, &serverError{l.code, l.reason}
		}
		if err = l.check(); err != nil {
			l.row.Doc.Close()
		}
	}
	if err != nil {
		return false, r.malformedRow(err)
	}
	return false, r.row(l.row)
}

// row adds a row to the current batch.
func (r *run) row(row Row) error {
	limit := r.f.options.Limit
	if limit > 0 && r.read == limit {
		row.Doc.Close() // the server ignores the limit
		return errLimit
	}
	if b := r.batch; b != nil && !b.fits(1, row.size, &r.f.options) {
		if err := r.flush(); err != nil {
			row.Doc.Close()
			return err
		}
	}
	if r.batch == nil {
		r.batch = &Batch{Seq: r.since}
	}
	r.batch.add(row)
	r.last = time.Now()
	if row.Seq != nil {
		r.since = row.Seq
		r.tries = 0
		if r.malformed == rereading {
			r.malformed = none // the malformed row was before this, and was damaged in transit
		}
	}
	r.rows++
	if r.read++; r.read == limit && r.kind != Normal {
		return errLimit // the last sequence of a normal feed is still to come
	}
	return nil
}

// malformedRow handles a malformed row. The row may have been damaged in transit, so it
// is requested again before it is delivered with an error.
func (r *run) malformedRow(err error) error {
	var syntax *jsonscan.SyntaxError
	if !errors.As(err, &syntax) && !errors.Is(err, errNotRow) {
		return err
	}
	if r.malformed == none {
		r.malformed = rereading
		return &malformedRowError{err}
	}
	r.malformed = reread
	raw, broken := r.lines.json.Resync(maxRaw)
	if broken != nil {
		return broken
	}
	r.f.count(func(s *Stats) { s.Malformed++ })
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\r")), []byte(","))
	return r.row(Row{Err: &malformedRowError{err}, Raw: raw, size: len(raw)})
}

// end takes the position from the end of a response.
func (r *run) end(last *line) {
	if last.lastSeq == nil {
		return
	}
	if r.batch == nil && string(last.lastSeq) == string(r.since) {
		return // nothing has changed
	}
	r.since = append(json.RawMessage(nil), last.lastSeq...)
	if r.batch == nil {
		r.batch = new(Batch)
	}
	r.batch.Seq, r.batch.Pending = r.since, last.pending
	r.tries = 0
}
