package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedctl/feedctl/storage/file"
)

// A kernel is a ResponseWriter that accepts files without reading them, like a
// connection.
type kernel struct {
	*httptest.ResponseRecorder
	files int64 // bytes received from files
}

func (k *kernel) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			n, err := io.Copy(k.ResponseRecorder.Body, src)
			k.files += n
			return n, err
		}
	}
	return io.Copy(k.ResponseRecorder.Body, src)
}

// TestFilesAreNotCopied: bodies from files reach the connection as files, through all wrappers.
func TestFilesAreNotCopied(t *testing.T) {
	store, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := New(store, Config{Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for range 2 {
		// The entities are larger than a page: each has a page to itself, so the first page is linked.
		r := httptest.NewRequest(http.MethodPost, "/feeds/f", bytes.NewReader(make([]byte, 2<<20)))
		r.Header.Set("Content-Type", "text/plain")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	for path, headers := range map[string][]string{"/feeds/f/pages/1": {"", "bytes=100-1999999"}, "/feeds/f": {""}} {
		// The first request verifies the page.
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		for _, part := range headers {
			w := &kernel{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if part != "" {
				r.Header.Set("Range", part)
			}
			s.ServeHTTP(w, r)
			if sent := int64(w.Body.Len()); sent < 1<<20 || w.files < sent-200 { // all but a closing delimiter
				t.Errorf("GET %s %s: %d bytes sent, %d of them as a file", path, part, sent, w.files)
			}
		}
	}
}

func TestResponderReadFrom(t *testing.T) {
	data := make([]byte, 3*piece+7)
	for i := range data {
		data[i] = byte(i * 7 / 3)
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, tt := range map[string]struct {
		src  io.Reader
		want int
	}{
		"a reader":                 {bytes.NewReader(data), len(data)},
		"a limited reader":         {&io.LimitedReader{R: bytes.NewReader(data), N: piece + 1}, piece + 1},
		"a reader below its limit": {&io.LimitedReader{R: bytes.NewReader(data), N: int64(len(data)) + 9}, len(data)},
		"a file":                   {f, len(data)},
		"whole pieces":             {&io.LimitedReader{R: bytes.NewReader(data), N: 2 * piece}, 2 * piece},
	} {
		recorder := httptest.NewRecorder()
		w := newResponder(recorder, time.Minute)
		n, err := w.ReadFrom(tt.src)
		if err != nil || n != int64(tt.want) || w.bytes != n || !bytes.Equal(recorder.Body.Bytes(), data[:tt.want]) || w.status != 200 {
			t.Errorf("%s: %d bytes, %v, want %d", name, n, err, tt.want)
		}
		if limited, ok := tt.src.(*io.LimitedReader); ok && name != "a reader below its limit" && limited.N != 0 {
			t.Errorf("%s: %d bytes are left", name, limited.N)
		}
	}
}

// A controlled writer records the deadlines that are set.
type controlled struct {
	http.ResponseWriter
	read time.Time
}

func (c *controlled) SetReadDeadline(t time.Time) error {
	c.read = t
	return nil
}

// TestBodyReaderLeavesNoDeadline: a deadline that is not cleared would end the request's context while
// the handler still runs.
func TestBodyReaderLeavesNoDeadline(t *testing.T) {
	c := &controlled{ResponseWriter: httptest.NewRecorder()}
	body := newBodyReader(bytes.NewReader([]byte("hello")), newResponder(c, time.Minute))
	b := make([]byte, 10)
	if n, err := body.Read(b); n != 5 || err != nil || c.read.IsZero() {
		t.Errorf("read: %d, %v, deadline %v", n, err, c.read)
	}
	for range 2 {
		if n, err := body.Read(b); n != 0 || err != io.EOF || !c.read.IsZero() {
			t.Errorf("read at the end: %d, %v, deadline %v", n, err, c.read)
		}
	}
}
