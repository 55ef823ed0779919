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

// Missing is what a database has not got of a document.
type Missing struct {
	Missing           []string `json:"missing"`
	PossibleAncestors []string `json:"possible_ancestors"`
}

// RevsDiff asks which of the given revisions, by document id, the database has
// not got (protocol, "Calculate Revision Difference"). Documents of which it
// has all are not in the result.
func (db *DB) RevsDiff(ctx context.Context, revs map[string][]string) (map[string]Missing, error) {
	body, err := json.Marshal(revs)
	if err != nil {
		return nil, err
	}
	q := JSONRequest(http.MethodPost, "_revs_diff", body)
	q.Repeat = true // it changes nothing
	var missing map[string]Missing
	if err := db.JSON(ctx, q, &missing); err != nil {
		return nil, err
	}
	return missing, nil
}

// A BulkResult is what became of one document.
type BulkResult struct {
	ID  string
	Rev string // the new one, or the one that was refused, if the server names it
	// Err is nil if the document was stored: otherwise an [*Error] with the
	// status of its code, or 422 if the code is not one of CouchDB's own.
	Err error
}

// BulkDocs writes documents, each a JSON object with its _id, in one request.
//
// With newEdits the server gives each a new revision; the _rev in it must be
// the current one; there is a result for each document, in their order.
//
// Without newEdits the documents are stored with the revisions that they have
// (_rev, and _revisions for their ancestors), and the request is repeated if
// its outcome is unknown (protocol, "Upload Batch of Changed Documents").
// CouchDB then has results only for documents that failed, PouchDB Server may
// have one for each: go by ID, and by Rev if there is one.
//
// The error is about the request as a whole: it matches ErrTooLarge if the
// batch must be made smaller. A status of 500 is not repeated, since one of the
// documents may be the cause.
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

// rowError makes the error of a document that was not written, while others were.
// CouchDB has whatever a validation function throws there, so a code is about the
// document unless it is known to be about the server.
func (db *DB) rowError(q Request, code string, reason json.RawMessage) *Error {
	e := db.docError(q, code, reason)
	if e.Status == http.StatusInternalServerError && !isTrouble(code) {
		e.Status = http.StatusUnprocessableEntity
	}
	return e
}

// isTrouble reports whether the "error" of an answer is about the server.
func isTrouble(code string) bool {
	switch code {
	case "internal_server_error", "error", "timeout", "overloaded", "nodedown", "os_process_error", "service_unavailable",
		"service unvailable": // as CouchDB spells it
		return true
	}
	return false
}

// docError makes the error of one document in an answer about many.
func (db *DB) docError(q Request, code string, reason json.RawMessage) *Error {
	return &Error{Method: q.Method, URL: db.address(q), Status: statusOf(code), Code: db.scrub(code), Reason: db.scrub(textOf(reason))}
}

// statusOf returns the status that goes with the "error" of an answer.
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

// textOf returns a string out of its JSON, and other JSON as it is.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text // empty, if it is null
	}
	return string(value)
}

// A Put is one document to write.
type Put struct {
	ID string
	// ContentType is "application/json", or "multipart/related" with its
	// boundary: a JSON part whose attachments have "follows", and then these
	// (protocol, "Upload Document with Attachments"). Empty: JSON.
	ContentType string
	// Open returns the document, anew for each try. Length is its size in bytes,
	// or -1: then it is sent in chunks.
	Open   func() (io.Reader, error)
	Length int64
	// NewEdits lets the server give it a new revision. Otherwise the document
	// has its own, and the request may be repeated.
	NewEdits bool
}

// Put writes one document of any size, streamed, and returns the revision that
// it has now.
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
	if !p.NewEdits && len(text) > 0 && text[0] == '[' { // as of _bulk_docs: PouchDB Server
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

// putError returns the error in an answer that has the form of that of _bulk_docs.
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
