//go:build unix

package file_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// A sendfileWriter checks the reader that is passed to the response's ReadFrom.
type sendfileWriter struct {
	http.ResponseWriter
	check func(io.Reader)
}

func (w sendfileWriter) ReadFrom(r io.Reader) (int64, error) {
	w.check(r)
	return w.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

// TestSendfile: the response receives a body in the only form for which package net uses sendfile,
// a file at its current offset in an io.LimitedReader.
func TestSendfile(t *testing.T) {
	s := newStore(t)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	if _, err := s.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	const offset, length = 1000, 1<<20 - 5000
	files := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, err := s.Get(r.Context(), "a", offset, length)
		if err != nil {
			t.Error(err)
			return
		}
		defer o.Body.Close()
		if _, err := io.Copy(sendfileWriter{w, func(r io.Reader) {
			limited, ok := r.(*io.LimitedReader)
			if !ok {
				t.Errorf("ReadFrom got a %T, want *io.LimitedReader", r)
				return
			}
			f, ok := limited.R.(*os.File)
			if !ok {
				t.Errorf("ReadFrom got a limited %T, want *os.File", limited.R)
				return
			}
			if at, err := f.Seek(0, io.SeekCurrent); at != offset || err != nil || limited.N != length {
				t.Errorf("file is at %d with %d bytes to send (%v), want %d and %d", at, limited.N, err, offset, length)
			}
			files++
		}}, o.Body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || string(got) != string(data[offset:offset+length]) {
		t.Errorf("got %d bytes, error %v, want those of the range", len(got), err)
	}
	if files != 1 {
		t.Errorf("ReadFrom was called %d times, want once", files)
	}
}

// TestSendfileCalls sends a body over TCP and checks the actual system calls.
func TestSendfileCalls(t *testing.T) {
	s, dir := newStoreDir(t)
	if _, err := s.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(make([]byte, 1<<20))); err != nil {
		t.Fatal(err)
	}
	trace := traced(t, dir, "send", "-e", "trace=sendfile,write")
	if calls := trace.calls("sendfile"); len(calls) == 0 {
		t.Errorf("the body was not sent by sendfile:\n%s", trace.text)
	}
}

// send sends a body over a connection, in the process that TestSendfileCalls traces.
func send(ctx context.Context, s *file.Store) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	received := make(chan error)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn})
		}
		received <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	o, err := s.Get(ctx, "a", 0, -1)
	if err != nil {
		return err
	}
	defer o.Body.Close()
	if _, err := io.Copy(conn, o.Body); err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	return <-received
}
