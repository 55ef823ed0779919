package couchdb

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink"
)

// A held is what a document in the database says about its entity.
type held struct {
	id, rev   string
	deleted   bool
	ours      bool // the document has the member of a sink
	contentID string
	key       string // if it is not the id
}

// row returns the row to compare. It returns false if the document was not written by a sink: it does not
// have the member, or has the member of a document with another id.
func (h held) row() (sink.Row, bool) {
	key := cmp.Or(h.key, h.id)
	return sink.Row{Key: key, ContentID: h.contentID, Version: h.rev}, h.ours && (key == h.id || docID(key) == h.id)
}

const (
	pageDocs = 500     // documents in a request
	maxText  = 1 << 20 // bytes of an id or key as JSON
)

// page reads the documents after a position, including deleted ones, and returns the next position, or the
// same one at the end.
func (t *target) page(ctx context.Context, at json.RawMessage) (found []held, next json.RawMessage, err error) {
	next, err = t.db.Documents(ctx, at, pageDocs, func(r *jsonscan.Reader) error {
		h, err := readHeld(r)
		found = append(found, h)
		return err
	})
	return found, next, err
}

// readHeld reads a document of any size.
func readHeld(r *jsonscan.Reader) (h held, err error) {
	err = r.Object(func(name []byte) (err error) {
		switch string(name) {
		case `"_id"`:
			h.id, err = readText(r)
		case `"_rev"`:
			h.rev, err = readText(r)
		case `"_deleted"`:
			var c byte
			if c, err = r.Peek(); err == nil {
				h.deleted, err = c == 't', r.Skip()
			}
		case `"` + metaMember + `"`:
			var c byte
			if c, err = r.Peek(); err != nil {
				return err
			}
			if c != '{' {
				return r.Skip()
			}
			h.ours = true
			err = h.readMeta(r)
		default:
			err = r.Skip()
		}
		return err
	})
	return h, err
}

func (h *held) readMeta(r *jsonscan.Reader) error {
	return r.Object(func(name []byte) (err error) {
		switch string(name) {
		case `"contentId"`, `"content_id"`: // the latter in documents of earlier versions
			h.contentID, err = readText(r)
		case `"key"`:
			h.key, err = readText(r)
		case `"keyBase64"`, `"key_base64"`:
			var text string
			text, err = readText(r)
			key, _ := base64.StdEncoding.DecodeString(text) // a malformed key is not the key of the id
			h.key = string(key)
		default:
			err = r.Skip()
		}
		return err
	})
}

// readText reads a string; other values are "".
func readText(r *jsonscan.Reader) (string, error) {
	value, whole, err := r.Value(maxText)
	switch {
	case err != nil:
		return "", err
	case !whole:
		return "", errors.Join(r.Rest(io.Discard), fmt.Errorf("%w: an id or key of more than %d bytes", couchdb.ErrMalformed, maxText))
	}
	text, _ := jsonscan.Unquote(value)
	return text, nil
}
