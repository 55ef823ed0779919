package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Missing lists the revisions of a document that a database does not have.
type Missing struct {
	Missing []string `json:"missing"`
}

// RevsDiff returns which of the given revisions, by document id, the database does
// not have (protocol, "Calculate Revision Difference"). Documents of which the database has all
// revisions are not in the result.
func (db *DB) RevsDiff(ctx context.Context, revs map[string][]string) (map[string]Missing, error) {
	body, err := json.Marshal(revs)
	if err != nil {
		return nil, err
	}
	q := JSONRequest(http.MethodPost, "_revs_diff", body)
	q.Repeat = true // read-only
	var missing map[string]Missing
	if err := db.JSON(ctx, q, &missing); err != nil {
		return nil, err
	}
	return missing, nil
}

// A BulkResult is the result of writing one document.
type BulkResult struct {
	ID  string
	Rev string // the new revision, or the refused revision if the server names it
	// Err is nil if the document was stored. Otherwise it is an [*Error] with the
	// status that corresponds to its code, or 422 if the code is not one of CouchDB's own.
	Err error
}

// BulkDocs writes documents, each a JSON object with its _id, in one request.
//
// With newEdits the server assigns new revisions. The _rev of each document must be its current
// revision. There is a result for each document, in the order of docs.
//
// Without newEdits the documents are stored with their own revisions (_rev, and _revisions for
// their ancestors), and the request is repeated if its outcome is unknown (protocol, "Upload Batch
// of Changed Documents"). CouchDB then returns results only for documents that failed, whereas
// PouchDB Server may return all results: match them by ID, and by Rev if it is set.
//
// The error is about the whole request. It matches ErrTooLarge if the batch must be made smaller.
// Status 500 is not retried, because one of the documents may be the cause.
func (db *DB) BulkDocs(ctx context.Context, docs [][]byte, newEdits bool) ([]BulkResult, error) {
	separator, end := []byte(`{"docs":[`), []byte(`],"new_edits":`+strconv.FormatBool(newEdits)+"}")
	if len(docs) == 0 {
		end = append(separator, end...)
	}
	var parts [][]byte
	for _, doc := range docs {
		parts = append(parts, separator, doc)
		separator = []byte(",\n")
	}
	parts = append(parts, end)
	q := JSONRequest(http.MethodPost, "_bulk_docs", nil)
	q.Body = func() (io.Reader, error) {
		readers := make([]io.Reader, len(parts))
		for i, part := range parts {
			readers[i] = bytes.NewReader(part)
		}
		return io.MultiReader(readers...), nil
	}
	for _, part := range parts {
		q.Length += int64(len(part))
	}
	q.Repeat, q.writes = !newEdits, true
	var answer []refusal
	if err := db.JSON(ctx, q, &answer); err != nil {
		return nil, err
	}
	results := make([]BulkResult, len(answer))
	for i, a := range answer {
		results[i] = BulkResult{ID: a.ID, Rev: a.Rev}
		if a.Error != "" {
			results[i].Err = db.writeError(q, a)
		}
	}
	return results, nil
}

// A Put is one document to write.
type Put struct {
	ID string
	// ContentType is "application/json", or "multipart/related" with its
	// boundary: a JSON part with attachments marked "follows", and then the
	// attachments (protocol, "Upload Document with Attachments"). Empty: JSON.
	ContentType string
	// Open returns the document. It is called for each attempt. Length is the size of the document
	// in bytes, or -1 to send the document in chunks.
	Open   func() (io.Reader, error)
	Length int64
	// NewEdits lets the server assign a new revision. Otherwise the document is stored with its
	// own revision, and the request may be repeated.
	NewEdits bool
}

// Put writes one document of any size, which is streamed, and returns its revision.
func (db *DB) Put(ctx context.Context, p Put) (rev string, err error) {
	q := JSONRequest(http.MethodPut, DocPath(p.ID), nil)
	q.Body, q.Length, q.Repeat, q.writes = p.Open, p.Length, !p.NewEdits, true
	if p.ContentType != "" {
		q.Header.Set("Content-Type", p.ContentType)
	}
	if !p.NewEdits {
		q.Query = url.Values{"new_edits": {"false"}}
	}
	var text json.RawMessage
	if err := db.JSON(ctx, q, &text); err != nil {
		return "", err
	}
	var answer refusal
	var answers []refusal
	if !p.NewEdits && json.Unmarshal(text, &answers) == nil { // PouchDB Server sends the same response as to _bulk_docs
		for _, r := range answers {
			if r.Error != "" {
				return "", db.writeError(q, r)
			}
		}
	} else if err := json.Unmarshal(text, &answer); err != nil {
		return "", db.malformed(q, err)
	}
	return answer.Rev, nil
}
