package postgres

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/storage"
)

// TestUnavailable: the error from a read matches ErrUnavailable if and only if the server cannot be
// reached.
func TestUnavailable(t *testing.T) {
	for _, test := range []struct {
		err  error
		away bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{&pgconn.PgError{Code: "57P03", SeverityUnlocalized: "FATAL"}, true}, // it is starting up
		{&pgconn.PgError{Code: "42501", SeverityUnlocalized: "ERROR"}, false},
		{errors.New("another"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := retry(t.Context(), func() error { return test.err })
			if !errors.Is(err, test.err) || errors.Is(err, storage.ErrUnavailable) != test.away {
				t.Errorf("%v: got %v", test.err, err)
			}
		})
	}
}
