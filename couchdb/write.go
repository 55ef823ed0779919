package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Missing lists the revisions of a document that a database does not have.
type Missing struct {
	Missing           []string `json:"missing"`
	PossibleAncestors []string `json:"possible_ancestors"`
}

// RevsDiff returns which of the given revisions, by document id, the database does
// not have (protocol, "Calculate Revision Difference"). Documents of which it has
// all revisions are not in the result.
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
	Rev string // the new revision, or the refused one if the server names it
	// Err is nil if the document was stored. Otherwise it is an [*Error] with the
	// status that corresponds to its code, or 422 if the code is not one of CouchDB's own.
	Err error
}

// BulkDocs writes documents, each a JSON object with its _id, in one request.
//
// With newEdits the server assigns new revisions. The _rev of each document must be
// its current revision. There is a result for each document, in their order.
//
// Without newEdits the documents are stored with their own revisions (_rev, and
// _revisions for their ancestors), and the request is repeated if its outcome is
// unknown (protocol, "Upload Batch of Changed Documents"). CouchDB then returns
// results only for documents that failed, and PouchDB Server may return all: match
// them by ID, and by Rev if it is set.
//
// The error is about the whole request. It matches ErrTooLarge if the batch must be
// made smaller. Status 500 is not retried, because one of the documents may be the
// cause.
func (db *DB) BulkDocs(ctx context.Context, docs [][]byte, newEdits bool) ([]BulkResult, error) {
	parts := make([][]byte, 0, 2*len(docs)+1)
	separator := []byte(`{"docs":[`)
	for _, doc := range docs {
		parts = append(parts, separator, doc)
		separator = []byte(",\n")
	}
	end := `],"new_edits":` + strconv.FormatBool(newEdits) + "}"
	if len(docs) == 0 {
		end = `{"docs":[` + end
	}
	parts = append(parts, []byte(end))
	q := JSONRequest(http.MethodPost, "_bulk_docs", nil)
	q.Body = func() (io.Reader, error) { return concat(parts), nil }
	for _, part := range parts {
		q.Length += int64(len(part))
	}
	q.Repeat, q.writes = !newEdits, true
	var answer []struct {
		ID     string          `json:"id"`
		Rev    string          `json:"rev"`
		Error  string          `json:"error"`
		Reason json.RawMessage `json:"reason"`
	}
	if err := db.JSON(ctx, q, &answer); err != nil {
		return nil, err
	}
	results := make([]BulkResult, len(answer))
	for i, a := range answer {
		results[i] = BulkResult{ID: a.ID, Rev: a.Rev}
		if a.Error != "" {
			results[i].Err = db.rowError(q, a.Error, a.Reason)
		}
	}
	return results, nil
}

// concat returns a reader of parts, one after the other.
func concat(parts [][]byte) io.Reader {
	readers := make([]io.Reader, len(parts))
	for i, part := range parts {
		readers[i] = bytes.NewReader(part)
	}
	return io.MultiReader(readers...)
}

// rowError returns the error of one document of a bulk write. The code may be
// anything that a validation function throws, so it is about the document unless it
// is known to be about the server.
func (db *DB) rowError(q Request, code string, reason json.RawMessage) *Error {
	e := db.docError(q, code, reason)
	if e.Status == http.StatusInternalServerError && !isServerError(code) {
		e.Status = http.StatusUnprocessableEntity
	}
	return e
}

// isServerError reports whether the "error" of a response is about the server.
func isServerError(code string) bool {
	switch code {
	case "internal_server_error", "error", "timeout", "overloaded", "nodedown", "os_process_error", "service_unavailable",
		"service unvailable": // as CouchDB spells it
		return true
	}
	return false
}

// docError returns the error of one document in a response about several.
func (db *DB) docError(q Request, code string, reason json.RawMessage) *Error {
	return &Error{Method: q.Method, URL: db.address(q), Status: statusOf(code), Code: db.scrub(code), Reason: db.scrub(textOf(reason))}
}

// statusOf returns the status that corresponds to the "error" of a response.
func statusOf(code string) int {
	switch code {
	case "unauthorized":
		return http.StatusUnauthorized
	case "forbidden":
		return http.StatusForbidden
	case "not_found", "missing":
		return http.StatusNotFound
	case "conflict":
		return http.StatusConflict
	case "missing_stub", "precondition_failed":
		return http.StatusPreconditionFailed
	case "document_too_large", "attachment_too_large", "too_large":
		return http.StatusRequestEntityTooLarge
	case "too_many_requests":
		return http.StatusTooManyRequests
	case "bad_request", "doc_validation", "illegal_docid", "illegal_database_name", "query_parse_error":
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// textOf decodes a JSON string, and returns other JSON unchanged.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text // empty if it is null
	}
	return string(value)
}

// A Put is one document to write.
type Put struct {
	ID string
	// ContentType is "application/json", or "multipart/related" with its
	// boundary: a JSON part with attachments marked "follows", and then the
	// attachments (protocol, "Upload Document with Attachments"). Empty: JSON.
	ContentType string
	// Open returns the document. It is called for each attempt. Length is the
	// document's size in bytes, or -1 to send it in chunks.
	Open   func() (io.Reader, error)
	Length int64
	// NewEdits lets the server assign a new revision. Otherwise the document
	// is stored with its own, and the request may be repeated.
	NewEdits bool
}

// Put writes one document of any size, streamed, and returns its revision.
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
	if !p.NewEdits && len(text) > 0 && text[0] == '[' { // PouchDB Server responds as to _bulk_docs
		return "", db.putError(q, text)
	}
	var answer struct {
		Rev string `json:"rev"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("%s %s: %w: %w", q.Method, db.address(q), ErrMalformed, err)
	}
	return answer.Rev, nil
}

// putError returns the error in a response that has the form of one to _bulk_docs.
func (db *DB) putError(q Request, text []byte) error {
	var results []struct {
		Error  string          `json:"error"`
		Reason json.RawMessage `json:"reason"`
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return fmt.Errorf("%s %s: %w: %w", q.Method, db.address(q), ErrMalformed, err)
	}
	for _, r := range results {
		if r.Error != "" {
			return db.rowError(q, r.Error, r.Reason)
		}
	}
	return nil
}
