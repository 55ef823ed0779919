package couchdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/couchdb"
)

// A row is a row of _all_docs.
type row struct {
	Key   string `json:"key"`
	Error string `json:"error"` // not_found
	Value struct {
		Rev     string `json:"rev"`
		Deleted bool   `json:"deleted"`
	} `json:"value"`
	Doc json.RawMessage `json:"doc"` // null if deleted
}

// rows requests documents from _all_docs, in the order of ids.
func (t *target) rows(ctx context.Context, ids []string, withDocs bool) ([]row, error) {
	body, err := json.Marshal(map[string][]string{"keys": ids})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows []row `json:"rows"`
	}
	q := couchdb.JSONRequest(http.MethodPost, "_all_docs", body)
	q.Repeat = true
	if withDocs {
		q.Query = url.Values{"include_docs": {"true"}}
	}
	if err := t.db.JSON(ctx, q, &answer); err != nil {
		return nil, err
	}
	if len(answer.Rows) != len(ids) {
		return nil, fmt.Errorf("read %d documents: %w: %d rows", len(ids), couchdb.ErrMalformed, len(answer.Rows))
	}
	for i, r := range answer.Rows {
		if r.Key != ids[i] {
			return nil, fmt.Errorf("read document %q: %w: row %d is for %q", ids[i], couchdb.ErrMalformed, i, r.Key)
		}
	}
	return answer.Rows, nil
}

// A meta is the value of metaMember.
type meta struct {
	ContentID   string          `json:"contentId"`
	ContentType string          `json:"contentType"`
	Headers     json.RawMessage `json:"headers"`
	Body        string          `json:"body"`

	// EarlierID and EarlierType are ContentID and ContentType in documents of earlier versions.
	EarlierID   string `json:"content_id"`
	EarlierType string `json:"content_type"`
}

// metaOf returns the value of metaMember of a document. It returns false if there is none.
func metaOf(doc []byte) (meta, bool) {
	var d struct {
		Meta *meta `json:"feedctl"`
	}
	if json.Unmarshal(doc, &d) != nil || d.Meta == nil {
		return meta{}, false
	}
	m := *d.Meta
	m.ContentID, m.ContentType = cmp.Or(m.ContentID, m.EarlierID), cmp.Or(m.ContentType, m.EarlierType)
	return m, true
}

// rev returns the revision that a write must replace, or "" if the document is deleted
// or does not exist.
func (r *row) rev() string {
	if r.Value.Deleted {
		return ""
	}
	return r.Value.Rev
}

// has reports whether w has been done: the document is from the same entity, or w deletes it and it is
// deleted.
func (r *row) has(w *write) bool {
	if r.rev() == "" || w.Deleted {
		return w.Deleted && r.rev() == ""
	}
	m, ok := metaOf(r.Doc)
	return ok && w.ContentID != "" && m.ContentID == w.ContentID
}
