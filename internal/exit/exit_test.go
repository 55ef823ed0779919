package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
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
	"github.com/feedctl/feedctl/snapshot/snapshots"
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
		{"nothing", nil, OK, ""},
		{"anything", errors.New("x"), Error, ""},
		{"usage", Usagef("x"), Usage, ""},
		{"invalid feed name", layout.CheckName(".."), Usage, ""},
		{"empty credentials file", credential.ErrEmpty, Usage, ""},
		{"no feed", chain.ErrNoFeed, NotFound, ""},
		{"no object", storage.ErrNotFound, NotFound, ""},
		{"no digest", consumer.ErrNoDigest, NotFound, ""},
		{"no file", fs.ErrNotExist, NotFound, ""},
		{"table that is not captured", outbox.ErrNotCaptured, NotFound, ""},
		{"404", &consumer.StatusError{StatusCode: 404}, NotFound, ""},
		{"410", &consumer.StatusError{StatusCode: 410}, NotFound, ""},
		{"401", &consumer.StatusError{StatusCode: 401}, Error, "--credentials-file"},
		{"403 for a presigned URL", &consumer.StatusError{StatusCode: 403, URL: "https://b/p?X-Amz-Signature=0"}, Error, "a new snapshot"},
		{"500", &consumer.StatusError{StatusCode: 500}, Error, ""},
		{"500 for a page", &consumer.PageError{Err: &consumer.StatusError{StatusCode: 500}}, Error, ""},
		{"404 in a check", &verify.StatusError{StatusCode: 404}, NotFound, ""},
		{"two timelines", &consumer.TimelineError{}, Gap, "--on-gap"},
		{"no entity to end at", &consumer.UntilNotFoundError{}, NotFound, ""},
		{"past the end", &consumer.PassedError{}, Error, ""},
		{"another feed", &consumer.IdentityError{}, Gap, "an empty sink"},
		{"another epoch", &consumer.EpochError{}, Gap, "--on-gap"},
		{"Content-ID gone", &consumer.ContentIDNotFoundError{}, Gap, "--on-gap"},
		{"not old enough", &consumer.NotOldEnoughError{}, Gap, "--on-gap"},
		{"truncated", &consumer.PageError{Err: page.ErrTruncated}, Invalid, ""},
		{"header", &consumer.PageError{Err: &feed.HeaderError{Err: feed.ErrMissingHeader}}, Invalid, ""},
		{"links", &consumer.PageError{Err: consumer.ErrLinks}, Invalid, ""},
		{"index", snapshot.ErrInvalid, Invalid, ""},
		{"corrupt store", chain.ErrCorrupt, Invalid, ""},
		{"quarantine", Errorf(Quarantine, "x"), Quarantine, ""},
		{"violations", Errorf(Invalid, "x"), Invalid, ""},
		{"limit", &consumer.PageError{Err: consumer.ErrTooLarge}, Error, ""},
		{"other origin", &consumer.PageError{Err: consumer.ErrOrigin}, Error, ""},
		{"malformed input", &page.Error{Err: page.ErrTruncated}, Error, ""},
		{"full", storage.ErrFull, Error, "freeing space"},
		{"full, with an unknown outcome", fmt.Errorf("%w: %w", producer.ErrUnknown, storage.ErrFull), Error, "freeing space"},
		{"read-only server", &consumer.StatusError{Method: "POST", StatusCode: 405}, Error, "serve --writable"},
		{"server without HEAD", &consumer.StatusError{StatusCode: 405}, Error, ""},
		{"denied", storage.ErrPermission, Error, "feedctl doctor"},
		{"unfit server", storage.ErrUnsafe, Error, "feedctl doctor"},
		{"cannot presign", snapshots.ErrPresign, Error, "--public-url"},
		{"unknown outcome", producer.ErrUnknown, Error, "publishing the same input again"},
		{"no server", fmt.Errorf("get: %w", &net.OpError{Op: "dial", Addr: &net.TCPAddr{Port: 9}, Err: errors.New("connection refused")}), Error, "nothing answers at :9"},
		{"no host", &net.OpError{Op: "dial", Err: &net.DNSError{Name: "x.test"}}, Error, "cannot be resolved"},
		{"no database", couchdb.ErrNotFound, NotFound, "another URL"},
		{"401 of CouchDB", couchdb.ErrUnauthorized, Error, "--into-credentials-file"},
		{"403 of CouchDB", couchdb.ErrForbidden, Error, "--into-credentials-file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.err
			if err != nil {
				err = fmt.Errorf("do it: %w", err)
			}
			if got := Status(err); got != test.want {
				t.Errorf("exit status %d, want %d", got, test.want)
			}
			if got := Hint(err); test.hint == "" && got != "" || !strings.Contains(got, test.hint) {
				t.Errorf("hint %q, want %q", got, test.hint)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	failure := errors.New("failure")
	if err := Signal(ctx, failure, true); err != failure {
		t.Errorf("without a signal: %v", err)
	}
	cancel(ErrInterrupted)
	if err := Signal(ctx, nil, false); err != nil {
		t.Errorf("with a signal, a successful command: %v", err)
	}
	for err, want := range map[error]string{
		context.Canceled: "interrupted",
		ErrInterrupted:   "interrupted",
		fmt.Errorf("read a: %w", context.Canceled): "interrupted: read a",
		fmt.Errorf("read a: %w", ErrInterrupted):   "interrupted: read a",
		fmt.Errorf("read a: %w", io.EOF):           "interrupted: read a: EOF",
	} {
		got := Signal(ctx, err, true)
		if got.Error() != want || Status(got) != Interrupted || !errors.Is(got, err) {
			t.Errorf("%v: got %q, exit status %d; want %q", err, got, Status(got), want)
		}
	}
}

// TestTerminated: SIGTERM ends a follower without an error; other errors remain errors.
func TestTerminated(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrTerminated)
	ended := fmt.Errorf("consume a: after 3 entities: %w", context.Canceled)
	for _, test := range []struct {
		err      error
		follower bool
		want     int
	}{
		{ended, true, OK},
		{ended, false, Interrupted},
		{errors.Join(ended, context.Cause(ctx)), true, OK},
		{errors.Join(ended, errors.New("commit batch: disk full")), true, Interrupted},
		{fmt.Errorf("%w: %w", storage.ErrFull, context.Canceled), true, Interrupted},
		{io.EOF, true, Interrupted},
	} {
		if got := Status(Signal(ctx, test.err, test.follower)); got != test.want {
			t.Errorf("%v, follower %t: exit status %d, want %d", test.err, test.follower, got, test.want)
		}
	}
}
