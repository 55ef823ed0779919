package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
)

// isRefusal reports whether the server refused the single document that was sent, and would refuse it
// again.
func isRefusal(err error) bool {
	switch couchdb.Status(err) {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusUnsupportedMediaType:
		return true
	}
	return isMalformed(err)
}

// isMalformed reports whether the server considers a document invalid.
func isMalformed(err error) bool {
	switch couchdb.Status(err) {
	case http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return errors.Is(err, errDocument)
}

// isServerFault reports whether the server has failed with status 500. The cause may be the server
// or the document.
func isServerFault(err error) bool {
	var e *couchdb.Error
	return errors.As(err, &e) && e.Status == http.StatusInternalServerError && e.Code != "timeout" && e.Code != "os_process_error"
}

// errDocument means that the server fails on a document, but accepts other writes.
var errDocument = errors.New("server fails on this document")

// A document is a revision or a write, to be sent to the database.
type document interface{ name() (id, rev string) }

// inParts calls write with documents, and with ever smaller parts of them as long as one document may have
// made the call fail: CouchDB refuses a bulk request if one document is malformed, too large, or has a stub
// of an unknown attachment, and fails on some documents with status 500. A document that is refused alone is
// counted in o.
func inParts[T document](t *target, all []T, o *outcome, write func([]T) error) error {
	err := write(all)
	switch {
	case len(all) > 1 && (isMalformed(err) || isServerFault(err)):
		half := len(all) / 2
		if err := inParts(t, all[:half], o, write); err != nil {
			return err
		}
		return inParts(t, all[half:], o, write)
	case isMalformed(err):
		id, rev := all[0].name()
		t.refuse(o, id, rev, err)
		return nil
	}
	return err
}

// retryAlone sends one document, repeatedly while the server fails with status 500. If the server still fails
// after t.tries attempts, but accepts other writes in between, the error matches errDocument.
func (t *target) retryAlone(ctx context.Context, send func() error) error {
	for n := 1; ; n++ {
		err := send()
		if !isServerFault(err) {
			return err
		}
		failed := t.load(ctx)
		if failed == nil { // write the checkpoint unchanged
			failed = t.save(ctx, func(*checkpoint) {})
		}
		if failed != nil {
			return errors.Join(err, failed)
		}
		if n >= t.tries {
			return fmt.Errorf("%w: %w", errDocument, err)
		}
		if t.pauses.Wait(ctx, n) != nil {
			return err
		}
	}
}

// An outcome counts written and refused documents.
type outcome struct {
	written, failures int64
	refused           []consumer.Refusal // the last ones
}

// refuse logs and counts a document that the database refuses. It is not retried (protocol, "Upload
// Batch of Changed Documents").
func (t *target) refuse(o *outcome, id, rev string, err error) {
	why := reason(err)
	t.log.Error("database refuses document", "database", t.db.URL(), "id", id, "rev", rev, "reason", why)
	o.failures++
	o.refused = append(o.refused, consumer.Refusal{ID: id, Rev: rev, Time: time.Now().UTC().Truncate(time.Second), Reason: why})
	o.refused = o.refused[max(0, len(o.refused)-maxRefused):]
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
