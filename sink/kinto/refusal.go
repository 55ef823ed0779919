package kinto

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/kinto"
)

var (
	errBusy = errors.New("conflict: other clients keep changing the record")
	// errRecord means that the server fails on a record, but accepts other writes.
	errRecord = errors.New("server fails on this record")
)

// A recordsError is an error of a request that one of its records may have caused. Other errors
// concern all records.
type recordsError struct{ err error }

func (e *recordsError) Error() string { return e.err.Error() }
func (e *recordsError) Unwrap() error { return e.err }

// ofRecords reports whether records may have caused an error.
func ofRecords(err error) bool { return errors.As(err, new(*recordsError)) }

// isMalformed reports whether the server considers a request invalid, and would refuse it again.
func isMalformed(err error) bool {
	switch kinto.Status(err) {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isServerFault reports whether the server has failed. The cause may be the server or a record.
func isServerFault(err error) bool { return kinto.Status(err) >= http.StatusInternalServerError }

// isMissing reports whether there is no record to delete.
func isMissing(err error) bool {
	var e *kinto.Error
	return errors.As(err, &e) && e.Missing() == "record"
}

const (
	// maxExamples limits the refusals that Rejected returns.
	maxExamples = 3
	// maxRefused is how many refusals a position keeps.
	maxRefused = 20
	// maxReason limits a reason, in bytes. Servers may quote records.
	maxReason = 500
)

// refuse logs and counts a record that the server refuses. The record is not retried. The next
// write of the state stores the refusal.
func (t *target) refuse(c *change, err error) {
	why := reason(err)
	t.log.Error("server refuses record", "collection", t.to.URL(), "id", c.id, "contentId", c.contentID, "reason", why)
	r := consumer.Refusal{ID: c.id, Time: time.Now().UTC().Truncate(time.Second), Reason: why}
	t.refused = append(t.refused, r)
	t.rejected.Refused++
	if len(t.rejected.Refusals) < maxExamples {
		t.rejected.Refusals = append(t.rejected.Refusals, r)
	}
}

// add adds refusals, whose records are then no longer expected.
func (s *state) add(refused []consumer.Refusal) {
	if len(refused) == 0 {
		return
	}
	s.refusals = len(refused)
	s.Failures += int64(len(refused))
	all := slices.Concat(s.Refused, refused)
	s.Refused = all[max(0, len(all)-maxRefused):]
	s.Last = slices.DeleteFunc(slices.Clone(s.Last), func(w written) bool {
		return slices.ContainsFunc(refused, func(r consumer.Refusal) bool { return r.ID == w.ID })
	})
}

// reason returns the server's message about a record, truncated to maxReason.
func reason(err error) string {
	text := err.Error()
	var e *kinto.Error
	if errors.As(err, &e) && !errors.Is(err, errRecord) {
		text = strings.TrimSpace(fmt.Sprintf("status %d %s: %s", e.Status, http.StatusText(e.Status), e.Message))
	}
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}
