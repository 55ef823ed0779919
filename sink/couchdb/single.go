package couchdb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

// updateOne writes a single change. The document shows whether it has been written.
func (t *target) updateOne(ctx context.Context, c *change, p pending) error {
	doc, err := t.document(c)
	if err != nil {
		return err
	}
	p.Single = &write{ID: c.id, ContentID: c.contentID, Deleted: c.deleted}
	var o outcome
	for range maxAttempts {
		found, err := t.rows(ctx, []string{c.id}, true)
		if err != nil {
			return fmt.Errorf("look up revision: %w", err)
		}
		if err := t.load(ctx); err != nil {
			return err
		}
		// If the write has not begun, it is done even if the document has this entity already:
		// the feed may be consumed again to repair the document.
		if (c.deleted || t.state.Pending != nil) && found[0].has(p.Single) {
			return t.finish(ctx, p, o)
		}
		if t.state.Pending == nil {
			if err := t.save(ctx, func(c *checkpoint) { c.Pending = &p }); err != nil {
				return err
			}
		}
		refusal, err := t.putOne(ctx, c, withRev(doc, found[0].rev()))
		switch {
		case err != nil:
			return fmt.Errorf("write document %q: %w", c.id, err)
		case errors.Is(refusal, couchdb.ErrConflict):
			continue
		case refusal != nil:
			t.refuse(&o, c.id, found[0].rev(), refusal)
		default:
			o.written = 1
		}
		return t.finish(ctx, p, o)
	}
	t.refuse(&o, c.id, "", errBusy)
	return t.finish(ctx, p, o)
}

// putOne writes the document of c, with its body if that is sent as multipart. Its results are
// those of putDoc.
func (t *target) putOne(ctx context.Context, c *change, doc []byte) (refusal, err error) {
	put := couchdb.Put{ID: c.id, NewEdits: true, Length: int64(len(doc))}
	put.Open = func() (io.Reader, error) { return bytes.NewReader(doc), nil }
	if t.multipart(c) {
		boundary := cmp.Or(c.boundary, rand.Text())
		before, between, body, after := c.envelope(boundary)
		put.ContentType = mime.FormatMediaType(relatedType, map[string]string{"boundary": boundary})
		put.Length = int64(len(before)+len(doc)+len(between)+len(after)) + body.Size
		put.Open = func() (io.Reader, error) {
			return io.MultiReader(strings.NewReader(before), bytes.NewReader(doc),
				strings.NewReader(between), t.spool.Reader(body), strings.NewReader(after)), nil
		}
	}
	if err := t.decode(ctx, &put); err != nil {
		return nil, err
	}
	return t.putDoc(ctx, put)
}

// putDoc writes one document. The refusal is set if the database refuses this document;
// err is any other error.
func (t *target) putDoc(ctx context.Context, put couchdb.Put) (refusal, err error) {
	send := func() error {
		_, err := t.db.Put(ctx, put)
		return err
	}
	err = t.retryAlone(ctx, send)
	if errors.Is(err, couchdb.ErrUnauthorized) {
		// Either a validation function refuses the document, or the credentials are not
		// valid, which load would report.
		if err := t.load(ctx); err != nil {
			return nil, err
		}
		err = t.retryAlone(ctx, send)
	}
	if isRefusal(err) {
		return err, nil
	}
	return nil, err
}
