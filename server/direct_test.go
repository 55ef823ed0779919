package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A denied store is one that refuses to be read: at once, or in the middle of a body.
type denied struct {
	storage.Store
	inBody bool
}

func (s denied) Stat(ctx context.Context, key string) (storage.Info, error) {
	if s.inBody {
		return s.Store.Stat(ctx, key)
	}
	return storage.Info{}, fmt.Errorf("stat %s: %w", key, storage.ErrPermission)
}

func (s denied) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err == nil {
		object.Body = failingBody{object.Body}
	}
	return object, err
}

type failingBody struct{ io.ReadCloser }

func (failingBody) Read([]byte) (int, error) { return 0, storage.ErrPermission }

func TestDirectTransport(t *testing.T) {
	store := memory.New()
	index := writeSnapshot(t, store, "s", 1)
	page := "http://h" + layout.SnapshotPagePath("s", index.ID, 0)
	read := func(client *http.Client) error {
		response, err := client.Get(page)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode >= 500 {
			return errors.New(response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	for _, inBody := range []bool{false, true} {
		s := newServer(t, denied{store, inBody}, server.Config{})
		if err := read(&http.Client{Transport: server.DirectTransport(s)}); !errors.Is(err, storage.ErrPermission) {
			t.Errorf("in the body %v: %v", inBody, err)
		}
		if err := read(&http.Client{Transport: server.Transport(s)}); err == nil || errors.Is(err, storage.ErrPermission) {
			t.Errorf("in the body %v, not directly: %v", inBody, err)
		}
	}
	s := newServer(t, store, server.Config{})
	client := &http.Client{Transport: server.DirectTransport(s)}
	if err := read(client); err != nil {
		t.Errorf("of a store in order: %v", err)
	}
	response, err := client.Get("http://h/feeds/none")
	check(t, err)
	if readAll(t, response); response.StatusCode != http.StatusNotFound {
		t.Errorf("no feed: %s", response.Status)
	}
}

// TestIndexForOthers: an index that was written for readers of the store, with URLs
// of pages there, has the server's own for readers of the server.
func TestIndexForOthers(t *testing.T) {
	store := memory.New()
	index := writeSnapshot(t, store, "s", 2)
	key := layout.SnapshotIndex("s", index.ID)
	for n := range index.Pages {
		index.Pages[n] = fmt.Sprintf("https://bucket.example/%s?expires=1", layout.SnapshotPage("s", index.ID, n))
	}
	index.Feed = &snapshot.FeedPosition{URL: "http://store.invalid/feeds/f", Page: "http://store.invalid/feeds/f/pages/7", LastModified: epoch}
	data, err := json.Marshal(index)
	check(t, err)
	info, err := store.Stat(t.Context(), key)
	check(t, err)
	_, err = store.Replace(t.Context(), key, info.Version, storage.Meta{ContentType: info.Meta.ContentType}, storage.Bytes(data))
	check(t, err)
	c := inside(t, newServer(t, store, server.Config{}))
	served, err := snapshot.Parse(c.get(t, "/snapshots/s").body)
	check(t, err)
	for n, page := range served.Pages {
		if page != c.url+layout.SnapshotPagePath("s", index.ID, n) || c.get(t, page).StatusCode != http.StatusOK {
			t.Errorf("page %d is %s", n, page)
		}
	}
	if f := served.Feed; f == nil || f.URL != c.url+"/feeds/f" || f.Page != c.url+"/feeds/f/pages/7" {
		t.Errorf("position in the feed is %+v", f)
	}
}

// TestDirectTransportPlain: nothing is compressed that does not leave the process.
func TestDirectTransportPlain(t *testing.T) {
	store := memory.New()
	index := writeSnapshot(t, store, "s", 100)
	s := newServer(t, store, server.Config{})
	for _, direct := range []bool{false, true} {
		transport := server.Transport(s)
		if direct {
			transport = server.DirectTransport(s)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h"+layout.SnapshotPagePath("s", index.ID, 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip, zstd")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		response.Body.Close()
		if coding := response.Header.Get("Content-Encoding"); (coding == "") != direct {
			t.Errorf("direct %t: Content-Encoding %q", direct, coding)
		}
	}
}

// A readTwice store has bodies that can be read again, and counts what is read of them.
type readTwice struct {
	storage.Store
	bytes *int
}

func (s readTwice) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(object.Body)
	object.Body = &rewound{bytes.NewReader(data), s.bytes}
	return object, err
}

type rewound struct {
	*bytes.Reader
	bytes *int
}

func (b *rewound) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	*b.bytes += n
	return n, err
}

func (b *rewound) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{b}) }

func (b *rewound) Rewind() error {
	_, err := b.Seek(0, io.SeekStart)
	return err
}

func (b *rewound) Close() error { return nil }

// TestReadOnce: what a reader in the same process gets is read once, and verified as it is
// read; the reader is told so.
func TestReadOnce(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 0, 8)
	index := writeSnapshot(t, store, "s", 1)
	for _, path := range []string{"/feeds/f", "/feeds/f/pages/1", layout.SnapshotPagePath("s", index.ID, 0)} {
		read := 0
		s := newServer(t, readTwice{store, &read}, server.Config{})
		for _, header := range []string{"", "bytes=1-"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h"+path, nil)
			check(t, err)
			if header != "" {
				request.Header.Set("Range", header)
			}
			response, err := server.DirectTransport(s).RoundTrip(request)
			check(t, err)
			verified := response.Body.(interface{ Verified() bool }).Verified()
			body := readAll(t, response)
			if header == "" && (!verified || read == 0 || read > len(body)) {
				t.Errorf("%s: verified %t, %d bytes read for %d", path, verified, read, len(body))
			} else if header != "" && verified {
				t.Errorf("%s: a range is taken to be verified", path)
			}
		}
	}
}
