package couchdb

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
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

// An Error is an error response of the server (CouchDB Replication Protocol,
// "Error Responses").
type Error struct {
	Method string
	URL    string // without credentials
	Status int
	Code   string // the response's "error", such as "not_found"
	Reason string // the response's "reason"
	// RetryAfter is the delay that the server asks for, or 0.
	RetryAfter time.Duration
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
	switch e.Status {
	case http.StatusUnauthorized:
		return target == ErrUnauthorized
	case http.StatusForbidden:
		return target == ErrForbidden
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	case http.StatusPreconditionFailed:
		return target == ErrPreconditionFailed
	case http.StatusRequestEntityTooLarge:
		return target == ErrTooLarge
	}
	return false
}

// unsupported reports whether the server does not support the request, although
// the database exists.
func (e *Error) unsupported() bool {
	switch e.Status {
	case http.StatusNotFound:
		return !e.noDatabase()
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// noDatabase reports whether the database does not exist, rather than something
// in it. The wording depends on the version of CouchDB.
func (e *Error) noDatabase() bool {
	switch strings.ToLower(strings.TrimSuffix(e.Reason, ".")) {
	case "database does not exist", "no_db_file":
		return e.Status == http.StatusNotFound
	}
	return false
}
