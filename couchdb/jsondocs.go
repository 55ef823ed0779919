package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/internal/roundtrip"
	"github.com/feedctl/feedctl/page"
)

// broken returns the error for a response that cannot be read to its end. The error is retryable if
// the response was truncated.
func (d *docReader) broken(err error) error {
	what := d.db.what(d.q)
	var cut *roundtrip.Error
	var syntax *jsonscan.SyntaxError
	var bad *page.Error
	switch {
	case errors.As(err, &cut), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, page.ErrTruncated):
		return &roundtrip.Error{What: what, Err: err}
	case errors.As(err, &syntax), errors.As(err, &bad):
		return fmt.Errorf("%s: %w: %w", what, ErrMalformed, err)
	}
	return err
}

// json reads {"results":[{"id":...,"docs":[...]}]}, the response to _bulk_get, or
// the array in the response to open_revs.
func (d *docReader) json(body io.Reader) error {
	r := jsonscan.NewReader(body)
	if c, err := r.Peek(); err == nil && c == '[' {
		first := d.asked[0] // all revisions belong to one document
		return r.Array(func() error { return d.leaf(r, first) })
	}
	return r.Object(func(name []byte) error {
		if string(name) != `"results"` {
			return r.Skip()
		}
		return d.results(r)
	})
}

// results reads the results for each document, in which the id comes first.
func (d *docReader) results(r *jsonscan.Reader) error {
	return r.Array(func() error {
		var asked IDRev
		return r.Object(func(name []byte) error {
			switch string(name) {
			case `"id"`:
				value, whole, err := r.Value(maxMember)
				if err == nil && !whole {
					err = fmt.Errorf("%w: document id of more than %d bytes", ErrMalformed, maxMember)
				}
				if err != nil {
					return err
				}
				asked.ID, _ = jsonscan.Unquote(value) // empty if it is not a string
				return nil
			case `"docs"`:
				return r.Array(func() error { return d.leaf(r, asked) })
			}
			return r.Skip()
		})
	})
}

// leaf reads {"ok":document}, {"missing":"rev"}, {"error":{...}}, or PouchDB's
// {"error":"...","reason":"..."}.
func (d *docReader) leaf(r *jsonscan.Reader, asked IDRev) error {
	no := refusal{ID: asked.ID}
	err := r.Object(func(key []byte) error {
		name := string(key) // key is valid only until the next read
		if name == `"ok"` {
			return d.doc(r)
		}
		value, whole, err := r.Value(maxMember)
		if err != nil {
			return err
		}
		if !whole {
			return r.Rest(io.Discard)
		}
		switch name {
		case `"missing"`:
			no.Missing, _ = jsonscan.Unquote(value) // empty if it is not a string
		case `"reason"`:
			no.Reason = bytes.Clone(value)
		case `"error"`:
			if json.Unmarshal(value, &no.Error) == nil {
				break
			}
			if err := json.Unmarshal(value, &no); err != nil {
				no.Error = "unknown_error"
			}
		}
		return nil
	})
	if err != nil || no.Error == "" && no.Missing == "" {
		return err
	}
	return d.refusal(no)
}

// doc reads the next value, a document.
func (d *docReader) doc(r *jsonscan.Reader) error {
	body, err := SpoolJSON(d.db.config.SpoolDir, d.db.config.MaxWhole, r)
	if err != nil {
		return err
	}
	return d.giveJSON(body)
}

// giveJSON yields a document that is valid JSON.
func (d *docReader) giveJSON(body *Body) error {
	meta, err := body.Scan()
	if err != nil {
		body.Close()
		return err
	}
	return d.give(&Doc{Meta: meta, ContentType: "application/json", Body: body})
}
