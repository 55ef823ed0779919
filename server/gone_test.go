package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// zeros is an endless reader without WriteTo.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A broken reader fails like a connection to a store.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// TestFailureLevel: losing the client in the middle of a body is logged at level Debug,
// losing the store at level Error.
func TestFailureLevel(t *testing.T) {
	name := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(name, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", errors.New("connection reset by peer"))}
	for name, test := range map[string]struct {
		body   io.Reader
		client func(*net.TCPConn) error
		want   slog.Level
	}{
		"file, client resets":   {file, resetConn, slog.LevelDebug},
		"memory, client resets": {zeros{}, resetConn, slog.LevelDebug},
		"file, client closes":   {file, (*net.TCPConn).Close, slog.LevelDebug},
		"file, client stalls":   {file, nil, slog.LevelDebug},
		"memory, client stalls": {zeros{}, nil, slog.LevelDebug},
		"store resets":          {broken{fmt.Errorf("get page: %w", reset)}, nil, slog.LevelError},
		"store resets, bare":    {broken{reset}, nil, slog.LevelError},
		"store stalls":          {broken{fmt.Errorf("get page: %w", os.ErrDeadlineExceeded)}, nil, slog.LevelError},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			here, there := connection(t)
			if test.client != nil {
				if err := test.client(there); err != nil {
					t.Fatal(err)
				}
			} else if err := here.SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			_, err := here.ReadFrom(&io.LimitedReader{R: test.body, N: 64 << 20})
			if err == nil {
				t.Fatal("everything was sent")
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if got := failureLevel(r, fmt.Errorf("send body: %w", err)); got != test.want {
				t.Errorf("%v: level %v, want %v", err, got, test.want)
			}
		})
	}
}

// resetConn closes a connection so that the other side gets a reset.
func resetConn(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }

// connection returns both ends of a connection.
func connection(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	if here, err = listener.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	return here, there
}
