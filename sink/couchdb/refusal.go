package couchdb

import (
	"errors"
	"net/http"

	"github.com/feedctl/feedctl/couchdb"
)

// validation is the code of the error about a document that is malformed. PouchDB
// Server sends it with status 500.
const validation = "doc_validation"

// isRefusal reports whether an error is about the one document that was sent, so
// that it would be refused again.
func isRefusal(err error) bool {
	var e *couchdb.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusUnsupportedMediaType:
		return true
	}
	return mustSplit(err)
}

// passing are the codes of errors of single documents that may not come again.
var passing = map[string]bool{"internal_server_error": true, "timeout": true, "error": true, "unknown_error": true}

// isPassing reports whether the error of a single document within a bulk request
// may not come again.
func isPassing(err error) bool {
	var e *couchdb.Error
	return !errors.As(err, &e) || e.Status >= http.StatusInternalServerError && passing[e.Code]
}

// mustSplit reports whether a bulk request may have failed because of one of its
// documents: CouchDB refuses all of them for one that is malformed, too large, or
// has a stub of an attachment that is not there.
func mustSplit(err error) bool {
	var e *couchdb.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return e.Code == validation
}

// reason returns what the server says about a document.
func reason(err error) string {
	var e *couchdb.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Reason == "":
		return e.Code
	}
	return e.Code + ": " + e.Reason
}
