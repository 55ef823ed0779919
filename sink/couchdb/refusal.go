package couchdb

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

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

// maxReason is how much of a reason is kept, in bytes: validation functions may repeat
// whole documents.
const maxReason = 500

// reason returns what the server says about a document, cut if it is long.
func reason(err error) string {
	text := err.Error()
	var e *couchdb.Error
	if errors.As(err, &e) {
		switch text = e.Code; {
		case text == "":
			text = strings.TrimSpace(fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status)))
		case e.Reason != "":
			text += ": " + e.Reason
		}
	}
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}
