package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// answer reads a response to its end, and reports whether it has the last sequence of the feed.
func (f *Follower) answer() (end bool, err error) {
	if f.kind == Continuous {
		return f.continuous()
	}
	json := f.lines.json
	var last line // the members other than the rows
	err = json.Object(func(name []byte) error {
		if string(name) != `"results"` {
			return f.lines.member(&last, name)
		}
		return json.Array(func() error {
			_, err := f.line()
			return err
		})
	})
	if err == nil {
		err = last.serverError()
	}
	if err == nil && last.end {
		f.end(&last)
	}
	return last.end, err
}

// continuous reads the objects of a continuous feed.
func (f *Follower) continuous() (end bool, err error) {
	for !end && err == nil {
		if _, err = f.lines.json.Peek(); err == io.EOF {
			return false, nil
		}
		if err == nil {
			end, err = f.line()
		}
	}
	return end, err
}

// line reads an object, and reports whether it is the end of the feed.
func (f *Follower) line() (end bool, err error) {
	f.lines.json.Mark()
	l, err := f.lines.read()
	if err == nil && !l.hasID {
		if l.end && f.kind == Continuous {
			f.end(&l)
			return true, nil
		}
		if err := l.serverError(); err != nil {
			return false, err
		}
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		l.row.Doc.Close()
		return false, f.malformedRow(err)
	}
	return false, f.row(l.row)
}

// row adds a row to the current batch.
func (f *Follower) row(row Row) error {
	if b := f.batch; b != nil && len(b.Rows) > 0 && (len(b.Rows) >= f.options.BatchRows || b.bytes+row.size > f.options.BatchBytes) {
		if err := f.flush(); err != nil {
			row.Doc.Close()
			return err
		}
	}
	f.last = time.Now()
	if f.batch == nil {
		f.batch = &Batch{Seq: f.since, began: f.last}
	}
	f.batch.Rows, f.batch.Pending = append(f.batch.Rows, row), -1
	f.batch.bytes += row.size
	if row.Seq != nil {
		f.since, f.batch.Seq = row.Seq, row.Seq
		if f.malformed == rereading {
			f.malformed = none // the malformed row came before this one, and was damaged in transit
		}
	}
	f.rows++
	return nil
}

// malformedRow handles a malformed row. The row may have been damaged in transit, so it is requested
// again before it is delivered with an error.
func (f *Follower) malformedRow(err error) error {
	var syntax *jsonscan.SyntaxError
	if !errors.As(err, &syntax) && !errors.Is(err, errNotRow) {
		return err
	}
	err = fmt.Errorf("malformed row: %w", err)
	if f.malformed == none {
		f.malformed = rereading
		return err
	}
	f.malformed = reread
	raw, broken := f.lines.json.Resync(maxRaw)
	if broken != nil {
		return broken
	}
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\r")), []byte(","))
	return f.row(Row{Err: err, Raw: raw, size: len(raw)})
}

// end takes the position from the end of a response.
func (f *Follower) end(last *line) {
	if last.lastSeq == nil || f.batch == nil && string(last.lastSeq) == string(f.since) {
		return // nothing has changed
	}
	f.since = append(json.RawMessage(nil), last.lastSeq...)
	if f.batch == nil {
		f.batch = new(Batch)
	}
	f.batch.Seq, f.batch.Pending = f.since, last.pending
}
