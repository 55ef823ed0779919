package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

// Exit statuses: part of the command line's contract.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitGap         = 4
	exitInvalid     = 5
	exitQuarantine  = 6
	exitInterrupted = 130 // 128 + SIGINT, as a shell reports it
)

// meaning explains the exit statuses in help texts.
var meaning = [...]struct {
	code int
	text string
}{
	{exitOK, "success"},
	{exitError, "any other error: the network, the store, the input"},
	{exitUsage, "the command line or the configuration is wrong"},
	{exitNotFound, "a store, feed, page, snapshot, file or captured table does not exist"},
	{exitGap, "the feed no longer has the entities that come next, or was restored to an older state"},
	{exitInvalid, "the feed or snapshot breaks the specification"},
	{exitQuarantine, "too many entities went into quarantine, or were refused"},
	{exitInterrupted, "interrupted by a signal; what was begun is finished or undone"},
}

// exitStatus returns the last section of a command's help.
func exitStatus(codes ...int) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:\n")
	for _, code := range codes {
		for _, m := range meaning {
			if m.code == code {
				fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.text)
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// errTerminated is the cause if the signal was SIGTERM, with which service managers end
// what runs for ever.
var errTerminated = fmt.Errorf("%w by SIGTERM", errInterrupted)

// errInvalidFeed is wrapped by the error of a check that found violations.
var errInvalidFeed = errors.New("the specification is broken")

// errNeedsRepair is wrapped by the error of a repair that found something to do and was not
// told to do it.
var errNeedsRepair = errors.New("nothing was changed")

// interruptedError is the error of a command that a signal ended.
type interruptedError struct{ err error }

func (e *interruptedError) Error() string {
	// The chain ends in one of these, which tells a reader nothing more.
	text := strings.TrimSuffix(e.err.Error(), context.Canceled.Error())
	text = strings.TrimSuffix(strings.TrimSuffix(text, errTerminated.Error()), errInterrupted.Error())
	text = strings.TrimRight(text, ": ")
	if text == "" {
		return errInterrupted.Error()
	}
	return errInterrupted.Error() + ": " + text
}

func (e *interruptedError) Unwrap() []error { return []error{errInterrupted, e.err} }

// runError is an error of a command that had a good command line.
type runError struct{ err error }

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

// usageError is an error in the command line that only the command could find.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exitCode is the one place that maps errors to exit statuses.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case isUsage(err):
		return exitUsage
	case errors.Is(err, errQuarantine):
		return exitQuarantine
	case consumer.IsGap(err):
		return exitGap
	case isNotFound(err):
		return exitNotFound
	case isInvalid(err):
		return exitInvalid
	default:
		return exitError
	}
}

func isUsage(err error) bool {
	var run *runError
	var usage *usageError
	return errors.As(err, &usage) || errors.Is(err, layout.ErrName) || errors.Is(err, credential.ErrEmpty) || !errors.As(err, &run)
}

func isNotFound(err error) bool {
	if status := statusCode(err); status != 0 {
		return status == http.StatusNotFound || status == http.StatusGone
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return false // a socket that is not there is a server that does not run
	}
	return errors.Is(err, consumer.ErrNotFound) || errors.Is(err, chain.ErrNoFeed) || errors.Is(err, chain.ErrNoPage) || errors.Is(err, chain.ErrPruned) ||
		errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrNoStore) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, outbox.ErrNotCaptured) ||
		errors.Is(err, couchdb.ErrNotFound)
}

// statusCode returns the HTTP status that err is about, or 0.
func statusCode(err error) int {
	var consumed *consumer.StatusError
	var verified *verify.StatusError
	switch {
	case errors.As(err, &consumed):
		return consumed.StatusCode
	case errors.As(err, &verified):
		return verified.StatusCode
	}
	return 0
}

// isInvalid reports whether err is about what a server or store has, as opposed
// to the way there and to the limits of the reader.
func isInvalid(err error) bool {
	switch {
	case statusCode(err) != 0:
		return false
	case errors.Is(err, consumer.ErrOrigin), errors.Is(err, consumer.ErrTooLarge):
		return false
	case consumer.Retryable(err) && !errors.Is(err, page.ErrTruncated):
		return false
	}
	for _, invalid := range []error{
		errInvalidFeed, errNeedsRepair, chain.ErrCorrupt, snapshot.ErrInvalid, consumer.ErrLinks, consumer.ErrTimeOrder,
		consumer.ErrLoop, consumer.ErrPageChanged, consumer.ErrMediaType,
	} {
		if errors.Is(err, invalid) {
			return true
		}
	}
	var page *consumer.PageError
	return errors.As(err, &page)
}
