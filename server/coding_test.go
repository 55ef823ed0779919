package server_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func itoa(n int) string { return strconv.Itoa(n) }

func decode(t *testing.T, coding string, body []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(r)
		check(t, err)
		r = z
	case "zstd":
		z, err := zstd.NewReader(r)
		check(t, err)
		defer z.Close()
		r = z
	case "":
	default:
		t.Fatalf("unknown coding %q", coding)
	}
	plain, err := io.ReadAll(r)
	check(t, err)
	return plain
}

func TestCodings(t *testing.T) {
	tests := []struct {
		accept string
		want   string
		status int
	}{
		{"", "", 200},
		{"gzip", "gzip", 200},
		{"zstd", "zstd", 200},
		{"GZIP", "gzip", 200},
		{"gzip, zstd", "zstd", 200},
		{"gzip, deflate, br, zstd", "zstd", 200},
		{"gzip;q=1.0, zstd;q=0.5", "gzip", 200},
		{"gzip;q=0.001", "gzip", 200},
		{"gzip ; q=0.5 , zstd ;q=0.5", "zstd", 200},
		{"br", "", 200},
		{"*", "zstd", 200},
		{"*;q=0.5, zstd;q=0", "gzip", 200},
		{"identity", "", 200},
		{"identity;q=1, gzip;q=0.5", "", 200},
		{"identity;q=0.5, gzip;q=1", "gzip", 200},
		{"identity;q=0, gzip", "gzip", 200},
		{"gzip;q=0", "", 200},
		{"gzip;q=2", "", 200},
		{"gzip;q=x", "", 200},
		{"gzip;q=0.1234", "", 200},
		{",,", "", 200},
		{"identity;q=0", "", 406},
		{"*;q=0", "", 406},
		{"br, *;q=0", "", 406},
		{"*;q=0, identity", "", 200},
		{"*;q=0, gzip;q=0.1", "gzip", 200},
	}
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		writeSnapshot(t, store, "s", 1)
		c := connect(t, newServer(t, store, server.Config{}))
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/1", "/snapshots/s", "/snapshots/s/" + newestID(t, store, "s") + "/pages/0"} {
			plain := c.get(t, path)
			for _, tt := range tests {
				got, head := c.get(t, path, "Accept-Encoding: "+tt.accept), c.do(t, http.MethodHead, path, "", "Accept-Encoding: "+tt.accept)
				coding := got.Header.Get("Content-Encoding")
				if got.StatusCode != tt.status || head.StatusCode != tt.status || coding != tt.want {
					t.Errorf("GET %s, %q: %s (HEAD: %s), coding %q, want %d %q", path, tt.accept, got.Status, head.Status, coding, tt.status, tt.want)
					continue
				}
				if tt.status != 200 {
					continue
				}
				if string(decode(t, coding, got.body)) != string(plain.body) {
					t.Errorf("GET %s, %q: another body", path, tt.accept)
				}
				getHeader, headHeader := header(got.Header), header(head.Header)
				if coding != "" {
					delete(getHeader, "Content-Length") // known only after the body (RFC 9110, section 9.3.2)
				}
				if diff := cmp.Diff(getHeader, headHeader); diff != "" {
					t.Errorf("%s, %q (-GET +HEAD):\n%s", path, tt.accept, diff)
				}
				wantTag := plain.Header.Get("Etag")
				if coding != "" {
					wantTag = strings.TrimSuffix(wantTag, `"`) + "-" + coding + `"`
					if got.Header.Get("Repr-Digest") != "" || got.Header.Get("Accept-Ranges") != "" {
						t.Errorf("GET %s, %q: header %v", path, tt.accept, getHeader)
					}
				}
				if getHeader["Etag"] != wantTag || getHeader["Vary"] != "Accept-Encoding" {
					t.Errorf("GET %s, %q: ETag %s, Vary %s", path, tt.accept, getHeader["Etag"], getHeader["Vary"])
				}
				if coding != "" {
					again := c.get(t, path, "Accept-Encoding: "+tt.accept, "If-None-Match: "+wantTag)
					part := c.get(t, path, "Accept-Encoding: "+tt.accept, "Range: bytes=0-3")
					if again.StatusCode != 304 || again.Header.Get("Etag") != wantTag || part.StatusCode != 200 {
						t.Errorf("GET %s, %q: %s with its ETag, %s with Range", path, tt.accept, again.Status, part.Status)
					}
				}
			}
		}
	})
}

// blockingWriter accepts a response's first bytes and no more until it is released.
type blockingWriter struct {
	header  http.Header
	started chan struct{}
	release chan struct{}
	once    bool
}

func (w *blockingWriter) Header() http.Header { return w.header }
func (w *blockingWriter) WriteHeader(int)     {}
func (w *blockingWriter) Write(p []byte) (int, error) {
	if !w.once {
		w.once = true
		close(w.started)
		<-w.release
	}
	return len(p), nil
}

func TestEncodersAreLimited(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 4)
	s := newServer(t, store, server.Config{MaxCoded: 1})
	slow := &blockingWriter{header: http.Header{}, started: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err := http.NewRequest(http.MethodGet, "http://store.example/feeds/f", nil)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Accept-Encoding", "gzip")
		s.ServeHTTP(slow, r)
	}()
	<-slow.started
	c := inside(t, s)
	busy := c.get(t, "/feeds/f", "Accept-Encoding: gzip")
	if busy.Header.Get("Content-Encoding") != "" || busy.Header.Get("Repr-Digest") == "" {
		t.Errorf("without a free encoder: header %v", busy.Header)
	}
	tag := strings.TrimSuffix(busy.Header.Get("Etag"), `"`) + `-gzip"`
	if same := c.get(t, "/feeds/f", "Accept-Encoding: gzip", "If-None-Match: "+tag); same.StatusCode != http.StatusNotModified {
		t.Errorf("with the ETag of the coded page, which needs no encoder: %s", same.Status)
	}
	insisting := make(chan answer)
	go func() { insisting <- c.get(t, "/feeds/f", "Accept-Encoding: gzip, identity;q=0") }()
	close(slow.release)
	if got := <-insisting; got.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a client that refuses the identity coding got header %v", got.Header)
	}
	<-done
	if free := c.get(t, "/feeds/f", "Accept-Encoding: gzip"); free.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("with a free encoder: header %v", free.Header)
	}
}
