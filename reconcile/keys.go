package reconcile

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/sink"
)

// keyByKey compares the rows in a range with what the feed has there, in the order of the keys. entries holds
// the entries of the leaf that contains the range.
func (r *run) keyByKey(ctx context.Context, of digest.Range, entries []digest.Entry, counted bool) error {
	r.progress.Ranges++
	next, stop := iter.Pull2(r.wants(of, entries))
	defer stop()
	w, err, more := next()
	for row, failed := range r.rows(ctx, of) {
		if failed != nil {
			return failed
		}
		if !counted {
			r.progress.Rows++
		}
		for ; more && err == nil && w.key < row.Key; w, err, more = next() {
			if err := r.onlyWanted(w); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if !more || w.key != row.Key {
			if err := r.onlyRow(row); err != nil {
				return err
			}
			continue
		}
		if err := r.both(w, row); err != nil {
			return err
		}
		w, err, more = next()
	}
	for ; more && err == nil; w, err, more = next() {
		if err := r.onlyWanted(w); err != nil {
			return err
		}
	}
	return err
}

// wants yields what the sink must have in a range: the entries of a leaf, updated with what the feed
// has between the positions.
func (r *run) wants(of digest.Range, entries []digest.Entry) iter.Seq2[want, error] {
	return func(yield func(want, error) bool) {
		for later, err := range r.scratch.between(of) {
			for ; err == nil && len(entries) > 0 && entries[0].Key <= later.key; entries = entries[1:] {
				if e := entries[0]; e.Key < later.key && of.Contains(e.Key) && !yield(r.wanted(e), nil) {
					return
				}
			}
			if !yield(later, err) || err != nil {
				return
			}
		}
		for _, e := range entries {
			if of.Contains(e.Key) && !yield(r.wanted(e), nil) {
				return
			}
		}
	}
}

func (r *run) wanted(e digest.Entry) want {
	w := want{key: e.Key, state: put, sum: e.Sum, id: e.ContentID}
	// The URL of a page ends with its number: see docs/wire-format.md.
	if at := r.Digest.Root.Feed.Page; e.Page > 0 && at != "" {
		w.page = at[:strings.LastIndexByte(at, '/')+1] + strconv.FormatInt(e.Page, 10)
		w.offset = e.Offset
	}
	return w
}

func (r *run) onlyWanted(w want) error {
	if w.state == deleted {
		return nil
	}
	if err := r.mend(w, nil); err != nil {
		return err
	}
	return r.found(Missing, w.key, "")
}

func (r *run) onlyRow(row sink.Row) error {
	if err := r.mend(want{key: row.Key, state: deleted}, &row); err != nil {
		return err
	}
	return r.found(Extra, row.Key, "")
}

// both handles a key for which both sides have something: it compares the row with what the sink must have.
func (r *run) both(w want, row sink.Row) error {
	same, why := true, ""
	switch known := w.state == put && row.Sum != (digest.Sum{}); {
	case w.state == deleted:
		if err := r.mend(w, &row); err != nil {
			return err
		}
		return r.found(Extra, row.Key, "the feed has deleted it")
	case known && w.sum == row.Sum:
	case known && w.id == row.ContentID:
		same, why = false, "it has the Content-ID, but not the content"
	case known:
		same, why = false, fmt.Sprintf("it has Content-ID %q, the feed has %q", row.ContentID, w.id)
	case w.id == "" || row.ContentID == "":
		r.counts.ByKey++
	case w.id != row.ContentID:
		same, why = false, fmt.Sprintf("it has Content-ID %q, the feed has %q", row.ContentID, w.id)
	default:
		r.counts.ByContentID++
	}
	if same {
		return r.found(Equal, row.Key, "")
	}
	if err := r.mend(w, &row); err != nil {
		return err
	}
	return r.found(Changed, row.Key, why)
}

// mend records for the repair, if there is to be one, that a row has to be mended. A nil row means that the
// sink has none for the key.
func (r *run) mend(w want, row *sink.Row) error {
	if !r.repairs {
		return nil
	}
	return r.scratch.addMend(w, row)
}
