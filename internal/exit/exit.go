// Package exit defines the exit statuses of feedctl, which are part of its contract. It determines the
// status for an error, and a hint that says what the user can do about it.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

// The exit statuses.
const (
	OK          = 0
	Error       = 1
	Usage       = 2
	NotFound    = 3
	Gap         = 4
	Invalid     = 5
	Quarantine  = 6
	Differs     = 7
	Interrupted = 130 // 128 + SIGINT, the status that a shell reports
)

var meanings = map[int]string{
	OK:          "success",
	Error:       "any other error: the network, the store, the input",
	Usage:       "the command line or the configuration is wrong",
	NotFound:    "a store, feed, page, entity, snapshot, file, captured table or job does not exist",
	Gap:         "the feed no longer has the entities that come next, or was restored to an older state",
	Invalid:     "the feed or snapshot breaks the specification",
	Quarantine:  "too many entities went into quarantine, or were refused",
	Differs:     "what was compared differs",
	Interrupted: "interrupted by a signal; work in progress was finished or rolled back",
}

// Help returns the last section of a command's help: the statuses that all commands have, and the other
// statuses of this command.
func Help(others ...int) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:")
	for _, status := range append([]int{OK, Error, Usage}, others...) {
		fmt.Fprintf(&b, "\n  %3d  %s", status, meanings[status])
	}
	return b.String()
}

// A statusError is an error with a status that was given when the error was made.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// Errorf returns an error with a status.
func Errorf(status int, format string, args ...any) error {
	return &statusError{fmt.Errorf(format, args...), status}
}

// Usagef returns an error about the command line.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Status returns the exit status of a command that ends with err.
func Status(err error) int {
	given, ok := errors.AsType[*statusError](err)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrInterrupted):
		return Interrupted
	case ok:
		return given.status
	case isAny(err, layout.ErrName, credential.ErrEmpty):
		return Usage
	case consumer.IsGap(err):
		return Gap
	case isNotFound(err):
		return NotFound
	case isInvalid(err):
		return Invalid
	}
	return Error
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

func isNotFound(err error) bool {
	if status := HTTPStatus(err); status != 0 {
		return status == http.StatusNotFound || status == http.StatusGone
	}
	if _, ok := errors.AsType[*consumer.UntilNotFoundError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return false // if a socket does not exist, the server is not running
	}
	return isAny(err, consumer.ErrNotFound, consumer.ErrNoDigest, chain.ErrNoFeed, chain.ErrNoPage, chain.ErrPruned, storage.ErrNotFound, storage.ErrNoStore,
		fs.ErrNotExist, outbox.ErrNotCaptured, couchdb.ErrNotFound, kinto.ErrNotFound)
}

// HTTPStatus returns the status of the HTTP response that caused err, or 0.
func HTTPStatus(err error) int {
	if e, ok := errors.AsType[*consumer.StatusError](err); ok {
		return e.StatusCode
	}
	if e, ok := errors.AsType[*verify.StatusError](err); ok {
		return e.StatusCode
	}
	return 0
}

// isInvalid reports whether err is about the contents of a feed or snapshot, and not about reaching the
// server or store, or about limits of the reader.
func isInvalid(err error) bool {
	switch {
	case HTTPStatus(err) != 0, isAny(err, consumer.ErrOrigin, consumer.ErrTooLarge):
		return false
	case consumer.Retryable(err) && !errors.Is(err, page.ErrTruncated):
		return false
	}
	_, ok := errors.AsType[*consumer.PageError](err)
	return ok || isAny(err, chain.ErrCorrupt, digest.ErrInvalid, digests.ErrCorrupt, snapshot.ErrInvalid, consumer.ErrLinks, consumer.ErrTimeOrder,
		consumer.ErrLoop, consumer.ErrPageChanged, consumer.ErrMediaType)
}
