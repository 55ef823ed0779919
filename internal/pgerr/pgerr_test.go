package pgerr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/pgerr"
)

// TestNetwork: errors of connections are recognized, and errors of files are not mistaken for them.
func TestNetwork(t *testing.T) {
	t.Parallel()
	_, missing := os.ReadFile(filepath.Join(t.TempDir(), "none"))
	_, refused := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", "127.0.0.1:1")
	_, socket := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(t.TempDir(), "none"))
	_, connecting := pgconn.Connect(t.Context(), "postgres://127.0.0.1:1/none?sslmode=disable")
	full := &fs.PathError{Op: "write", Path: "/copy", Err: syscall.ENOSPC}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{refused, true},
		{socket, true},
		{connecting, true},
		{&net.DNSError{Err: "no such host"}, true},
		{&url.Error{Op: "Get", URL: "http://a/", Err: refused}, true},
		{&url.Error{Op: "Get", URL: "http://a/", Err: errors.New("other")}, false},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{fmt.Errorf("read: %w", net.ErrClosed), true},
		{context.DeadlineExceeded, true},
		{errors.Join(full, refused), true},
		{fmt.Errorf("%w: %w", errors.New("other"), refused), true},
		{missing, false},
		{fmt.Errorf("write: %w", full), false},
		{&url.Error{Op: "Put", URL: "http://a/", Err: full}, false},
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EACCES}, false},
		{&fs.PathError{Op: "read", Path: "/pipe", Err: os.ErrDeadlineExceeded}, false},
		{os.NewSyscallError("fsync", syscall.EIO), false},
		{syscall.ENOSPC, false},
		{errors.New("other"), false},
		{nil, false},
	} {
		if got := pgerr.Network(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}
