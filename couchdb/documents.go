package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// Documents reads up to limit documents in the order of their last changes, beginning after the position
// since, or with the first document if since is nil. It calls doc for each document, including deleted ones,
// with a reader at its start; doc must read the document to its end. Attachments are stubs, and of
// conflicting revisions only the winner is read. Documents returns the position of the last document, or
// since if there are no more.
//
// Documents uses _changes with include_docs, since PouchDB Server omits documents whose ids begin with a
// character above U+00FF from _all_docs.
//
// The documents returned by several calls are not the state at a single moment: a document that is changed
// between calls may be read again. The error is [Retryable] if the response was cut off; doc may already
// have been called.
func (db *DB) Documents(ctx context.Context, since json.RawMessage, limit int, doc func(*jsonscan.Reader) error) (last json.RawMessage, err error) {
	q := Request{Path: "_changes", Query: url.Values{"include_docs": {"true"}, "limit": {strconv.Itoa(limit)}}}
	if since != nil {
		q.Query.Set("since", SeqText(since))
	}
	resp, err := db.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	rows := 0
	r := jsonscan.NewReader(resp.Body)
	err = r.Object(func(name []byte) (err error) {
		switch string(name) {
		case `"results"`:
			return r.Array(func() error { rows++; return readChange(r, doc) })
		case `"last_seq"`:
			last, err = readSeq(r)
			return err
		}
		return r.Skip()
	})
	switch {
	case err != nil:
		return nil, db.newDocReader(q, nil, nil).broken(err)
	case rows == 0:
		return since, nil
	case last == nil, bytes.Equal(last, since):
		return nil, db.malformed(q, fmt.Errorf("%d changes after %s end at %.100q", rows, since, last))
	}
	return last, nil
}

// readChange reads a row of _changes.
func readChange(r *jsonscan.Reader, doc func(*jsonscan.Reader) error) error {
	return r.Object(func(name []byte) error {
		if string(name) != `"doc"` {
			return r.Skip()
		}
		switch c, err := r.Peek(); {
		case err != nil:
			return err
		case c != '{': // null: the document was purged, or may not be read
			return r.Skip()
		}
		return doc(r)
	})
}

// maxSeq is the maximum size of a sequence, in bytes. The sequences of a cluster grow with the number of
// shards.
const maxSeq = 1 << 20

func readSeq(r *jsonscan.Reader) (json.RawMessage, error) {
	value, whole, err := r.Value(maxSeq)
	switch {
	case err != nil:
		return nil, err
	case !whole:
		return nil, errors.Join(r.Rest(io.Discard), fmt.Errorf("%w: a sequence of more than %d bytes", ErrMalformed, maxSeq))
	}
	return bytes.Clone(value), nil
}
