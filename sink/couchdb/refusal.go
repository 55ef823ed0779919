package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

// validation is the error code for a malformed document. PouchDB Server sends it with
// status 500.
const validation = "doc_validation"

// isRefusal reports whether the server refused the one document that was sent, and
// would refuse it again.
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
// documents: CouchDB refuses all of them if one is malformed, too large, or has a stub
// of an unknown attachment, and fails on some documents with status 500.
func mustSplit(err error) bool { return isMalformed(err) || isServerFault(err) }

// isMalformed reports whether the server considers a document invalid.
func isMalformed(err error) bool {
	var bad *badDocumentError
	if errors.As(err, &bad) {
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

// isServerFault reports whether the server has failed with status 500. The cause may be
// the server or the document.
func isServerFault(err error) bool {
	var e *couchdb.Error
	return errors.As(err, &e) && e.Status == http.StatusInternalServerError && e.Code != "timeout" && e.Code != "os_process_error"
}

// A badDocumentError is about a document on which the server fails while it accepts other
// writes.
type badDocumentError struct{ err error }

func (e *badDocumentError) Error() string { return e.err.Error() }
func (e *badDocumentError) Unwrap() error { return e.err }

// retryAlone sends one document, and again while the server fails with status 500. If it still
// fails after t.tries attempts, and accepts other writes in between, the error is a
// badDocumentError.
func (t *target) retryAlone(ctx context.Context, send func() error) error {
	for n := 1; ; n++ {
		err := send()
		if !isServerFault(err) {
			return err
		}
		if failed := t.touch(ctx); failed != nil {
			return errors.Join(err, failed)
		}
		if n >= t.tries {
			return &badDocumentError{err}
		}
		if t.pauses.Wait(ctx, n) != nil {
			return err
		}
	}
}

// touch writes the checkpoint unchanged, to check that the database accepts writes.
func (t *target) touch(ctx context.Context) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	return t.save(ctx, func(*checkpoint) {})
}

// maxReason limits a reason, in bytes. Validation functions may quote whole documents.
const maxReason = 500

// reason returns the server's message about a document, truncated to maxReason.
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
