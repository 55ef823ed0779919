package kinds

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/pgerr"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// classify turns an error from a run into one for the scheduler: a [*jobs.OriginError] if a server
// is the cause, or an error that matches [jobs.ErrDuplicate] or [jobs.ErrRejected]. All others are
// temporary errors of the job.
func (k *kind) classify(err error, i jobs.Identity) error {
	if _, ok := errors.AsType[*jobs.OriginError](err); ok || err == nil {
		return err
	}
	if errors.Is(err, jobs.ErrFindings) {
		return err
	}
	if errors.Is(err, sink.ErrLocked) {
		return fmt.Errorf("%w: %w", jobs.ErrDuplicate, err)
	}
	if origin, after := k.blamed(err, i); origin != "" {
		return &jobs.OriginError{Origin: origin, Err: err, RetryAfter: after, Throttled: statusOf(err) == http.StatusTooManyRequests}
	}
	if permanent(err) {
		return fmt.Errorf("%w: %w", jobs.ErrRejected, err)
	}
	return err
}

// hinted is an error with a hint that tells the user what to do about it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Hint implements the interface that [jobs.Kind] describes.
func (e *hinted) Hint() string { return e.hint }

// withHint adds a hint to an error that tells the user what to do about it, in terms of jobs.
func withHint(err error) error {
	hint := ""
	switch status := statusOf(err); {
	case err == nil:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		hint = "another credential in the job's credentials field"
	default:
		hint = exit.Hint(err)
	}
	if hint == "" {
		return err
	}
	return &hinted{err, hint}
}

// permanent reports whether an error will recur until a user changes something: the job, or the data
// that it read or wrote.
func permanent(err error) bool {
	if _, ok := errors.AsType[*bridgekinto.BucketError](err); ok {
		return false // later runs publish the other collections
	}
	for _, e := range []error{
		changes.ErrRecreated, bridge.ErrForeign, // the feed belongs to another database
		bridgekinto.ErrGone, bridgekinto.ErrManyGone,
		outbox.ErrForeign, outbox.ErrDestination,
		sink.ErrSpec, storage.ErrLayout, storage.ErrUnsafe,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch exit.Status(err) {
	case exit.Usage, exit.Gap, exit.Quarantine:
		return true
	}
	return false
}

// blamed returns the origin that is the cause of an error, and how long the origin asks its clients
// to wait. The origin is "" if the cause is the job.
func (k *kind) blamed(err error, i jobs.Identity) (origin string, after time.Duration) {
	if status := statusOf(err); status != 0 {
		if !isServerError(status) {
			return "", 0
		}
		if e, ok := errors.AsType[*consumer.StatusError](err); ok {
			return originIn(i, e.URL), e.RetryAfter
		}
		if e, ok := errors.AsType[*couchdb.Error](err); ok {
			return originIn(i, e.URL), 0
		}
		if e, ok := errors.AsType[*kinto.Error](err); ok {
			return originIn(i, e.URL), 0
		}
		return i.SourceOrigin, 0 // the error is from package verify
	}
	var answered interface{ SQLState() string } // a *pgconn.PgError
	if errors.As(err, &answered) {
		if pgerr.Passes(answered.SQLState()) {
			return k.database(i), 0
		}
		return "", 0
	}
	switch {
	case errors.Is(err, sink.ErrUnavailable):
		return i.TargetOrigin, 0
	case errors.Is(err, storage.ErrUnavailable):
		return k.store(i), 0
	case !isNetwork(err):
		return "", 0
	}
	if u := requested(err); u != "" {
		return originIn(i, u), 0
	}
	if database := k.database(i); database != "" || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return database, 0 // without a database, the cause is a file that ends early
	}
	return cmp.Or(i.SourceOrigin, i.TargetOrigin), 0
}

// requested returns the URL of the request that failed, or "" if no HTTP request failed. If the request
// failed because another request, which supplied its body, failed, it returns the URL of that other
// request.
func requested(err error) (u string) {
	type request interface {
		error
		RequestURL() string
		Unwrap() error
	}
	for r, ok := errors.AsType[request](err); ok; r, ok = errors.AsType[request](r.Unwrap()) {
		if at := r.RequestURL(); locate.IsWeb(at) {
			u = at
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok && u == "" {
		u = e.URL
	}
	return u
}

// statusOf returns the HTTP status that an error reports, or 0.
func statusOf(err error) int {
	return cmp.Or(exit.HTTPStatus(err), couchdb.Status(err), kinto.Status(err))
}

// isServerError reports whether a response says something about the server rather than the request.
func isServerError(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// originIn returns the origin of the URL raw if the job names that origin, otherwise "". Origins that a
// feed only links to are not blamed: the scheduler would not notice when they work again.
func originIn(i jobs.Identity, raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if o := origins.Of(u); o == i.SourceOrigin || o == i.TargetOrigin {
		return o
	}
	return ""
}

// store returns the origin of the store that the kind uses.
func (k *kind) store(i jobs.Identity) string {
	if k.stored == "target" {
		return i.TargetOrigin
	}
	return i.SourceOrigin
}

// database returns the source or target origin, whichever is a database. If both are, it returns the
// one that is not a store: the errors of stores have a type of their own.
func (k *kind) database(i jobs.Identity) string {
	origins := []string{i.TargetOrigin, i.SourceOrigin}
	if k.stored == "target" {
		slices.Reverse(origins)
	}
	for _, o := range origins {
		if strings.HasPrefix(o, "postgres:") {
			return o
		}
	}
	return ""
}

// isNetwork reports whether a server cannot be reached, does not respond in time, or cannot
// identify itself.
func isNetwork(err error) bool {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) { // no more sockets can be opened
		return false
	}
	if pgerr.Network(err) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
	)
	for _, target := range []any{&verification, &record, &alert, &authority, &host} {
		if errors.As(err, target) {
			return true
		}
	}
	return false
}
