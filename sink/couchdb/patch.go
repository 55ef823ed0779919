package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink/patch"
)

// A current is the state of a document that a patch changes.
type current struct {
	contentType string
	about       []byte
	body        []byte
}

// patch stages a document changed by a PATCH. The content type and the headers remain
// those of the PUT.
func (t *target) patch(ctx context.Context, key string, e *feed.Entity) error {
	delta, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if stream != nil {
		return patch.ErrTooLarge
	}
	id := docID(key)
	was, err := t.current(ctx, id)
	if err != nil {
		return err
	}
	body, err := patch.Apply(was.body, e.ContentType, delta)
	if err != nil {
		return err
	}
	c := &change{key: key, id: id, contentID: e.ContentID, lastModified: e.LastModified, contentType: was.contentType, patched: true}
	if c.about, err = t.spool.Put(was.about); err != nil {
		return err
	}
	if c.body, err = t.spool.Put(body); err != nil {
		return err
	}
	c.form, t.buf = formOf(t.json, t.buf[:0], was.contentType, body)
	t.stage(c, e)
	return nil
}

// current returns a document as changed by the batch, or else as stored in the database.
func (t *target) current(ctx context.Context, id string) (was current, err error) {
	c, staged := t.last[id]
	switch {
	case !staged:
		err = t.retry(ctx, t.tries, func(ctx context.Context) error {
			was, err = t.stored(ctx, id)
			return err
		})
		return was, err
	case c.deleted:
		return was, patch.ErrMissing
	case c.body.Size > patch.MaxSize:
		return was, patch.ErrTooLarge
	}
	was.contentType = c.contentType
	if was.about, err = t.spool.Append(nil, c.about); err != nil {
		return was, err
	}
	if was.body, err = t.spool.Append(nil, c.body); err == nil && c.whole {
		was.body, _, _ = split(was.body, false) // patching a body that is not JSON fails
	}
	return was, err
}

// stored reads a document from the database.
func (t *target) stored(ctx context.Context, id string) (was current, err error) {
	rows, err := t.rows(ctx, []string{id}, true)
	if err != nil {
		return was, err
	}
	r := rows[0]
	if r.Error != "" || r.Value.Deleted {
		return was, patch.ErrMissing
	}
	own, _, ok := split(r.Doc, false)
	if !ok {
		return was, fmt.Errorf("read document %q: %w: not a JSON object, or too deeply nested", id, couchdb.ErrMalformed)
	}
	m, ours := metaOf(r.Doc)
	if !ours { // written by another client
		m = meta{ContentType: "application/json"}
	}
	if len(m.Headers) == 0 { // changed by another client
		m.Headers = json.RawMessage("{}")
	}
	was.contentType = m.ContentType
	was.about = append(jsonscan.AppendString([]byte(`"contentType":`), m.ContentType), `,"headers":`...)
	was.about = append(was.about, m.Headers...)
	if m.Body == "" {
		was.body = own
		return was, nil
	}
	was.body, err = t.attachment(ctx, id, r.Value.Rev)
	return was, err
}

// attachment reads the attachment with the body of a document.
func (t *target) attachment(ctx context.Context, id, rev string) ([]byte, error) {
	response, err := t.db.Do(ctx, couchdb.Request{
		Path:  couchdb.DocPath(id) + "/" + bodyName,
		Query: url.Values{"rev": {rev}},
	})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, patch.MaxSize+1))
	if err == nil && len(body) > patch.MaxSize {
		err = patch.ErrTooLarge
	}
	return body, err
}
