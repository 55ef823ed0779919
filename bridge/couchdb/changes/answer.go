package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// errLimit: there were as many rows as were wanted.
var errLimit = errors.New("limit is reached")

// answer reads an answer to its end, and reports whether it says that it is
// the end.
func (r *run) answer() (end bool, err error) {
	if r.kind == Continuous {
		return r.continuous()
	}
	json := r.lines.json
	var last line // what is there besides the rows
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
		return false, r.nonsense(err)
	}
	return false, r.row(l.row)
}

// row adds a row to what is handed out.
func (r *run) row(row Row) error {
	limit := r.f.options.Limit
	if limit > 0 && r.read == limit {
		row.Doc.Close() // the server takes no limit
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
		if r.doubt == asked {
			r.doubt = trusting // what made no sense was before this, and was broken on its way
		}
	}
	r.rows++
	if r.read++; r.read == limit && r.kind != Normal {
		return errLimit // a normal feed has its last sequence yet to come
	}
	return nil
}

// nonsense handles a row that makes no sense. It may have been broken on its
// way, so it is asked for again before it is handed out.
func (r *run) nonsense(err error) error {
	var syntax *jsonscan.SyntaxError
	if !errors.As(err, &syntax) && !errors.Is(err, errNonsense) {
		return err
	}
	if r.doubt == trusting {
		r.doubt = asked
		return &nonsenseError{err}
	}
	r.doubt = certain
	raw, broken := r.lines.json.Resync(maxRaw)
	if broken != nil {
		return broken
	}
	r.f.count(func(s *Stats) { s.Malformed++ })
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\r")), []byte(","))
	return r.row(Row{Err: &nonsenseError{err}, Raw: raw, size: len(raw)})
}

// end takes the position from the end of an answer.
func (r *run) end(last *line) {
	if last.lastSeq == nil {
		return
	}
	if r.batch == nil && string(last.lastSeq) == string(r.since) {
		return // nobody needs to know
	}
	r.since = append(json.RawMessage(nil), last.lastSeq...)
	if r.batch == nil {
		r.batch = new(Batch)
	}
	r.batch.Seq, r.batch.Pending = r.since, last.pending
	r.tries = 0
}
