package couchdb

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What an [Error] may match with errors.Is, by its status.
var (
	ErrUnauthorized       = errors.New("unauthorized")                // 401: log in, or correct the credentials
	ErrForbidden          = errors.New("forbidden")                   // 403
	ErrNotFound           = errors.New("not found")                   // 404
	ErrConflict           = errors.New("conflict")                    // 409
	ErrPreconditionFailed = errors.New("precondition failed")         // 412: database exists, or an attachment's stub is unknown
	ErrTooLarge           = errors.New("request entity is too large") // 413
	ErrMalformed          = errors.New("answer is not as documented") // an answer of status 200 that makes no sense
)

// An Error is an answer of the server that says no (CouchDB Replication
// Protocol, "Error Responses").
type Error struct {
	Method string
	URL    string // without credentials
	Status int
	Code   string // the answer's "error", such as "not_found"
	Reason string // the answer's "reason"
	// RetryAfter is how long the server wants to be left alone; 0 if it does
	// not say.
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

// Is makes errors.Is find the cause of a status.
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

// unsupported reports whether the server does not know the request, although it
// has the database.
func (e *Error) unsupported() bool {
	switch e.Status {
	case http.StatusNotFound:
		return !e.noDatabase()
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// noDatabase reports whether there is no such database, rather than something in
// it. CouchDB says it in different words.
func (e *Error) noDatabase() bool {
	switch strings.ToLower(strings.TrimSuffix(e.Reason, ".")) {
	case "database does not exist", "no_db_file":
		return e.Status == http.StatusNotFound
	}
	return false
}
