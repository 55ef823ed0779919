package couchdb

import (
	"context"
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
	return isMalformed(err)
}

// mustSplit reports whether a bulk request may have failed because of one of its
// documents: CouchDB refuses all of them for one that is malformed, too large, or
// has a stub of an attachment that is not there, and fails on others with status 500.
func mustSplit(err error) bool { return isMalformed(err) || isSuspect(err) }

// isMalformed reports whether the server has found something wrong with a document.
func isMalformed(err error) bool {
	var poison *poisonError
	if errors.As(err, &poison) {
		return true
	}
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

// isSuspect reports whether the server has failed with status 500, as it does when it is
// in trouble, and also on a document that it has no better answer to.
func isSuspect(err error) bool {
	var e *couchdb.Error
	return errors.As(err, &e) && e.Status == http.StatusInternalServerError && e.Code != "timeout" && e.Code != "os_process_error"
}

// A poisonError is a document that the server fails on, while it takes others.
type poisonError struct{ err error }

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

// insist sends one document, and again while the server fails with status 500. If it does so
// time and again, and takes another write in between, the error is that of the document.
func (t *target) insist(ctx context.Context, send func() error) error {
	for n := 1; ; n++ {
		err := send()
		if !isSuspect(err) {
			return err
		}
		if failed := t.touch(ctx); failed != nil {
			return errors.Join(err, failed)
		}
		if n >= t.tries {
			return &poisonError{err}
		}
		if t.pauses.Wait(ctx, n) != nil {
			return err
		}
	}
}

// touch writes the checkpoint as it is, to see whether the database takes a write.
func (t *target) touch(ctx context.Context) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	return t.save(ctx, func(*checkpoint) {})
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
