package couchdb

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/page"
)

// Errors that an [Error] matches by its status.
var (
	ErrUnauthorized       = errors.New("unauthorized")                // 401: log in, or correct the credentials
	ErrForbidden          = errors.New("forbidden")                   // 403
	ErrNotFound           = errors.New("not found")                   // 404
	ErrConflict           = errors.New("conflict")                    // 409
	ErrPreconditionFailed = errors.New("precondition failed")         // 412: database exists, or an attachment's stub is unknown
	ErrTooLarge           = errors.New("request entity is too large") // 413
	ErrMalformed          = errors.New("malformed response")          // a response of status 200 that is not as documented
)

// An Error is an error response of the server (CouchDB Replication Protocol, "Error Responses").
type Error struct {
	Method string
	URL    string // without credentials
	Status int    // 400 for a malformed document, whatever the server sends
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

// unsupported reports whether the server does not support the request, although the database exists.
func (e *Error) unsupported() bool {
	return e.Status == http.StatusNotFound && !e.noDatabase() || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented
}

// noDatabase reports whether the database does not exist, rather than something in it. The wording
// depends on the version of CouchDB.
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
	var broken *transportError
	return !Permanent(err) && (Status(err) != 0 || errors.As(err, &broken) || errors.Is(err, page.ErrTruncated))
}

// Permanent reports whether the same request will fail until something is changed: the server
// refused it, its certificate is invalid, only one side uses TLS, or it redirects to another origin.
// An error that is neither Retryable nor Permanent may be either.
func Permanent(err error) bool {
	switch status := Status(err); status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case 0:
		var certificate *tls.CertificateVerificationError
		return errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) ||
			errors.Is(err, errTLS) || errors.Is(err, errOrigin) || errors.Is(err, errRedirects)
	default:
		return status < http.StatusInternalServerError
	}
}

// A refusal is what a server sends in place of a document, or about a whole request.
type refusal struct {
	ID      string          `json:"id"`
	Rev     string          `json:"rev"`
	Error   string          `json:"error"`
	Reason  json.RawMessage `json:"reason"`  // not a string everywhere
	Missing string          `json:"missing"` // a revision
}

// maxError limits how much of the body of an error response is read, in bytes.
const maxError = 64 << 10

// responseError returns the error of a response.
func (db *DB) responseError(q Request, resp *http.Response) *Error {
	var body refusal
	// The status is reported even if the body cannot be read.
	if data, err := io.ReadAll(io.LimitReader(resp.Body, maxError)); err != nil || json.Unmarshal(data, &body) != nil {
		body = refusal{}
	}
	e := db.docError(q, body)
	if body.Error != "doc_validation" { // PouchDB Server sends it with status 500
		e.Status = resp.StatusCode
	}
	return e
}

// docError returns the error of one document in a response about several.
func (db *DB) docError(q Request, r refusal) *Error {
	return &Error{Method: q.Method, URL: db.address(q), Status: statusOf(r.Error), Code: db.scrub(r.Error), Reason: db.scrub(textOf(r.Reason))}
}

// writeError returns the error of one document of a bulk write. The code may be anything that a
// validation function throws, so it is about the document unless it is known to be about the server.
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
		return text // empty if it is null
	}
	return string(value)
}

// scrub removes the password from a server's message, which may quote a URL.
func (db *DB) scrub(s string) string {
	for _, secret := range db.secrets {
		s = strings.ReplaceAll(s, secret, "***")
	}
	return s
}

// malformed returns the error of a response that cannot be decoded.
func (db *DB) malformed(q Request, err error) error {
	return fmt.Errorf("%s %s: %w: %w", q.Method, db.address(q), ErrMalformed, err)
}

// A transportError is a request or response that was cut off. It is retryable.
type transportError struct {
	what string // method and URL
	err  error
}

func (e *transportError) Error() string { return e.what + ": " + e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// RequestURL returns the URL of the request, for callers that use several servers.
func (e *transportError) RequestURL() string {
	_, url, _ := strings.Cut(e.what, " ")
	return url
}

var (
	errHeaderTimeout = errors.New("no response within the time limit")
	errRedirects     = errors.New("too many redirects")
	errOrigin        = errors.New("redirected to another origin: use the URL that it leads to")
	errTLS           = errors.New("the server speaks TLS: write https:// instead of http://")
)

// tlsAlert is in the error of net/http about a response that begins with a TLS alert (RFC 8446,
// section 6), which a TLS server sends in answer to plain HTTP.
const tlsAlert = `malformed HTTP response "\x15\x03`

// transportError returns the error of a request that got no response.
func (db *DB) transportError(q Request, err, cause error) error {
	if errors.Is(cause, errHeaderTimeout) {
		err = cause
	}
	var repeated *url.Error // repeats the URL
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	if errors.Is(err, io.EOF) { // callers must not take it for the end of a body
		err = io.ErrUnexpectedEOF
	}
	what := db.what(q)
	if strings.Contains(err.Error(), tlsAlert) {
		return fmt.Errorf("%s: %w", what, errTLS)
	}
	if errors.Is(err, errOrigin) || errors.Is(err, errRedirects) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return &transportError{what: what, err: err}
}
