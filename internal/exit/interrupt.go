package exit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInterrupted is the cause of a context that was ended by a signal.
var ErrInterrupted = errors.New("interrupted")

// ErrTerminated is the cause of a context that was ended by SIGTERM, the signal with which service
// managers end long-running commands.
var ErrTerminated = fmt.Errorf("%w by SIGTERM", ErrInterrupted)

// An interruptedError means that a signal ended a command.
type interruptedError struct{ error }

func (e *interruptedError) Error() string {
	text := e.error.Error()
	for _, end := range []error{context.Canceled, ErrTerminated, ErrInterrupted} { // which add nothing
		text = strings.TrimSuffix(text, end.Error())
	}
	return strings.TrimSuffix(ErrInterrupted.Error()+": "+strings.TrimRight(text, ": "), ": ")
}

func (e *interruptedError) Unwrap() []error { return []error{ErrInterrupted, e.error} }

// Signal returns the error to report for a command that has returned err. If a signal has ended
// ctx, the result matches ErrInterrupted even if err does not, since not every library names the
// context as the cause of its error. A follower runs until it is ended, so Signal returns nil if
// SIGTERM has ended a follower and nothing has failed.
func Signal(ctx context.Context, err error, follower bool) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || !errors.Is(cause, ErrInterrupted):
		return err
	case follower && errors.Is(cause, ErrTerminated) && OnlyEnded(err):
		return nil
	}
	return &interruptedError{err}
}

// OnlyEnded reports whether err has no other cause than the end of a context.
func OnlyEnded(err error) bool {
	switch e := err.(type) { //nolint:errorlint // every layer is examined
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !OnlyEnded(err) })
	case interface{ Unwrap() error }:
		if next := e.Unwrap(); next != nil {
			return OnlyEnded(next)
		}
	}
	return err == context.Canceled || err == ErrInterrupted
}
