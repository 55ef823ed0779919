package couchdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/internal/roundtrip"
	"github.com/feedctl/feedctl/page"
)

// Errors that an [Error] matches by its status.
var (
	ErrUnauthorized       = errors.New("unauthorized")                // 401: log in, or correct the credentials
	ErrForbidden          = errors.New("forbidden")                   // 403
	ErrNotFound           = errors.New("not found")                   // 404
	ErrConflict           = errors.New("conflict")                    // 409
	ErrPreconditionFailed = errors.New("precondition failed")         // 412: the database exists, or the stub of an attachment is unknown
	ErrTooLarge           = errors.New("request entity is too large") // 413
	ErrMalformed          = errors.New("malformed response")          // a response with status 200 that is not as documented
)

// An Error is an error response of the server (CouchDB Replication Protocol, "Error Responses").
type Error struct {
	Method string
	URL    string // without credentials
	Status int    // 400 for a malformed document, even if the server sends another status
	Code   string // the response's "error", such as "not_found"
	Reason string // the response's "reason"
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: status %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Is reports whether the status corresponds to target, such as [ErrNotFound].
func (e *Error) Is(target error) bool {
	matching, ok := map[int]error{
		http.StatusUnauthorized:          ErrUnauthorized,
		http.StatusForbidden:             ErrForbidden,
		http.StatusNotFound:              ErrNotFound,
		http.StatusConflict:              ErrConflict,
		http.StatusPreconditionFailed:    ErrPreconditionFailed,
		http.StatusRequestEntityTooLarge: ErrTooLarge,
	}[e.Status]
	return ok && target == matching
}

// unsupported reports whether the error means that the server does not support the request, although
// the database exists.
func (e *Error) unsupported() bool {
	return e.Status == http.StatusNotFound && !e.noDatabase() || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented
}

// noDatabase reports whether the error means that the database itself does not exist, rather than
// something in it. Its wording depends on the version of CouchDB.
func (e *Error) noDatabase() bool {
	reason := strings.ToLower(strings.TrimSuffix(e.Reason, "."))
	return e.Status == http.StatusNotFound && (reason == "database does not exist" || reason == "no_db_file")
}

// Status returns the status of an [Error], or 0 for other errors.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Retryable reports whether the same request may succeed later: the network failed, a response was
// truncated, or its status was 408, 425, 429 or 5xx.
func Retryable(err error) bool {
	return roundtrip.Retryable(Status(err), err) || errors.Is(err, page.ErrTruncated) && !Permanent(err)
}

// Permanent reports whether the same request will fail until something is changed: the server
// refused the request or redirected it to another origin, its certificate is invalid, or only one
// side uses TLS. An error that is neither Retryable nor Permanent may be either.
func Permanent(err error) bool { return roundtrip.Permanent(Status(err), err) }

// A refusal is the error that a server sends in place of a document, or for a whole request.
type refusal struct {
	ID      string          `json:"id"`
	Rev     string          `json:"rev"`
	Error   string          `json:"error"`
	Reason  json.RawMessage `json:"reason"`  // not a string everywhere
	Missing string          `json:"missing"` // a revision
}

// maxError is how much of the body of an error response is read, in bytes.
const maxError = 64 << 10

// responseError returns the error for an error response: an [*Error], or the error of reading its
// body if that was cut off.
func (db *DB) responseError(q Request, resp *http.Response) error {
	data, err := roundtrip.Failure(resp, maxError)
	if err != nil {
		return err
	}
	var body refusal
	if json.Unmarshal(data, &body) != nil {
		body = refusal{}
	}
	e := db.docError(q, body)
	if body.Error != "doc_validation" { // PouchDB Server sends this error with status 500
		e.Status = resp.StatusCode
	}
	return e
}

// docError returns the error for one document in a response about several documents.
func (db *DB) docError(q Request, r refusal) *Error {
	return &Error{Method: q.Method, URL: db.address(q), Status: statusOf(r.Error), Code: db.client.Hide(r.Error), Reason: db.client.Hide(textOf(r.Reason))}
}

// writeError returns the error for one document of a bulk write. A validation function may throw any
// code, so the error is about the document unless the code is known to be about the server.
func (db *DB) writeError(q Request, r refusal) *Error {
	e := db.docError(q, r)
	if e.Status == http.StatusInternalServerError && !isServerError(r.Error) {
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
		return text // empty if the value is null
	}
	return string(value)
}

// malformed returns the error for a response that cannot be decoded.
func (db *DB) malformed(q Request, err error) error {
	return fmt.Errorf("%s %s: %w: %w", q.Method, db.address(q), ErrMalformed, err)
}
