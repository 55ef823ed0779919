package kinds

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/pgerr"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// classify returns the error of a run in the terms of the scheduler: a [*jobs.OriginError] if a
// server is the cause, or one that matches [jobs.ErrDuplicate] or [jobs.ErrRejected]. Others are
// errors of the job that may pass.
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
		return &jobs.OriginError{Origin: origin, Err: err, RetryAfter: after}
	}
	if permanent(err) {
		return fmt.Errorf("%w: %w", jobs.ErrRejected, err)
	}
	return err
}

// permanent reports whether an error will be the same until a user changes something: the job, or
// what it has read or written.
func permanent(err error) bool {
	for _, e := range []error{
		changes.ErrRecreated, bridge.ErrForeign, // the feed is of another database
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

// blamed returns the origin whose error this is, and how long it asks its clients to wait; "" if
// it is an error of the job.
func (k *kind) blamed(err error, i jobs.Identity) (origin string, after time.Duration) {
	if status := cmp.Or(exit.HTTPStatus(err), couchdb.Status(err)); status != 0 {
		if !isServerError(status) {
			return "", 0
		}
		if e, ok := errors.AsType[*consumer.StatusError](err); ok {
			return originIn(i, e.URL), e.RetryAfter
		}
		if e, ok := errors.AsType[*couchdb.Error](err); ok {
			return originIn(i, e.URL), 0
		}
		return i.SourceOrigin, 0 // of package verify
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
	if e, ok := errors.AsType[*url.Error](err); ok {
		return originIn(i, e.URL), 0
	}
	return cmp.Or(k.database(i), i.SourceOrigin, i.TargetOrigin), 0
}

// isServerError reports whether a response says something about the server rather than the request.
func isServerError(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// originIn returns the origin of a URL if it is one of the job's. Those that a feed links to are
// not: the scheduler would not notice when they work again.
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

// database returns the origin that is a database. If both are, it is the one that is not a store,
// whose errors are known.
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
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // else each error of a request is a net.Error
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
