package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want int
		hint string
	}{
		{"nothing", nil, exitOK, ""},
		{"anything", errors.New("x"), exitError, ""},
		{"usage", usagef("x"), exitUsage, ""},
		{"name of a feed", layout.CheckName(".."), exitUsage, ""},
		{"empty file of credentials", credential.ErrEmpty, exitUsage, ""},
		{"no feed", chain.ErrNoFeed, exitNotFound, ""},
		{"no object", storage.ErrNotFound, exitNotFound, ""},
		{"no file", fs.ErrNotExist, exitNotFound, ""},
		{"table that is not captured", outbox.ErrNotCaptured, exitNotFound, ""},
		{"404", &consumer.StatusError{StatusCode: 404}, exitNotFound, ""},
		{"410", &consumer.StatusError{StatusCode: 410}, exitNotFound, ""},
		{"401", &consumer.StatusError{StatusCode: 401}, exitError, "--credentials-file"},
		{"403 of a presigned URL", &consumer.StatusError{StatusCode: 403, URL: "https://b/p?X-Amz-Signature=0"}, exitError, "a new snapshot"},
		{"500", &consumer.StatusError{StatusCode: 500}, exitError, ""},
		{"500 of a page", &consumer.PageError{Err: &consumer.StatusError{StatusCode: 500}}, exitError, ""},
		{"404 in a check", &verify.StatusError{StatusCode: 404}, exitNotFound, ""},
		{"two timelines", &consumer.TimelineError{}, exitGap, "--on-gap"},
		{"Content-ID gone", &consumer.ContentIDNotFoundError{}, exitGap, "--on-gap"},
		{"not old enough", &consumer.NotOldEnoughError{}, exitGap, "--on-gap"},
		{"truncated", &consumer.PageError{Err: page.ErrTruncated}, exitInvalid, ""},
		{"header", &consumer.PageError{Err: &feed.HeaderError{Err: feed.ErrMissingHeader}}, exitInvalid, ""},
		{"links", &consumer.PageError{Err: consumer.ErrLinks}, exitInvalid, ""},
		{"index", snapshot.ErrInvalid, exitInvalid, ""},
		{"corrupt store", chain.ErrCorrupt, exitInvalid, ""},
		{"quarantine", errQuarantine, exitQuarantine, ""},
		{"violations", errInvalidFeed, exitInvalid, ""},
		{"limit", &consumer.PageError{Err: consumer.ErrTooLarge}, exitError, ""},
		{"other origin", &consumer.PageError{Err: consumer.ErrOrigin}, exitError, ""},
		{"malformed input", &page.Error{Err: page.ErrTruncated}, exitError, ""},
		{"full", storage.ErrFull, exitError, "freeing room"},
		{"full in the middle", fmt.Errorf("%w: %w", producer.ErrUnknown, storage.ErrFull), exitError, "freeing room"},
		{"server that only reads", &consumer.StatusError{Method: "POST", StatusCode: 405}, exitError, "serve --writable"},
		{"server without HEAD", &consumer.StatusError{StatusCode: 405}, exitError, ""},
		{"denied", storage.ErrPermission, exitError, "feedctl doctor"},
		{"unfit server", storage.ErrUnsafe, exitError, "feedctl doctor"},
		{"cannot presign", producer.ErrPresign, exitError, "--public-url"},
		{"unknown outcome", producer.ErrUnknown, exitError, "publishing the same input again"},
		{"no database", couchdb.ErrNotFound, exitNotFound, "another URL"},
		{"401 of CouchDB", couchdb.ErrUnauthorized, exitError, "--into-credentials-file"},
		{"403 of CouchDB", couchdb.ErrForbidden, exitError, "--into-credentials-file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.err
			if err != nil {
				err = &runError{fmt.Errorf("do it: %w", err)}
			}
			if got := exitCode(err); got != test.want {
				t.Errorf("exit status %d, want %d", got, test.want)
			}
			if got := hint(err); test.hint == "" && got != "" || !strings.Contains(got, test.hint) {
				t.Errorf("hint %q, want %q", got, test.hint)
			}
		})
	}
	if got := exitCode(errors.New("unknown flag: --bogus")); got != exitUsage {
		t.Errorf("error before the command has begun: exit status %d", got)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	failure := errors.New("failure")
	if err := interrupted(ctx, failure, true); err != failure {
		t.Errorf("without a signal: %v", err)
	}
	cancel(errInterrupted)
	if err := interrupted(ctx, nil, false); err != nil {
		t.Errorf("of a command that ended well: %v", err)
	}
	for err, want := range map[error]string{
		context.Canceled: "interrupted",
		errInterrupted:   "interrupted",
		fmt.Errorf("read a: %w", context.Canceled): "interrupted: read a",
		fmt.Errorf("read a: %w", errInterrupted):   "interrupted: read a",
		fmt.Errorf("read a: %w", io.EOF):           "interrupted: read a: EOF",
	} {
		got := interrupted(ctx, err, true)
		if got.Error() != want || exitCode(got) != exitInterrupted || !errors.Is(got, err) {
			t.Errorf("%v: got %q, exit status %d; want %q", err, got, exitCode(got), want)
		}
	}
}

// SIGTERM is the end of a command that runs until it is ended; other errors stay errors.
func TestTerminated(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTerminated)
	ended := fmt.Errorf("consume a: after 3 entities: %w", context.Canceled)
	for _, test := range []struct {
		err      error
		follower bool
		want     int
	}{
		{ended, true, exitOK},
		{ended, false, exitInterrupted},
		{&runError{errors.Join(ended, context.Cause(ctx))}, true, exitOK},
		{errors.Join(ended, errors.New("commit batch: disk full")), true, exitInterrupted},
		{fmt.Errorf("%w: %w", storage.ErrFull, context.Canceled), true, exitInterrupted},
		{io.EOF, true, exitInterrupted},
	} {
		if got := exitCode(interrupted(ctx, test.err, test.follower)); got != test.want {
			t.Errorf("%v, follower %t: exit status %d, want %d", test.err, test.follower, got, test.want)
		}
	}
}
