package feedstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A fileStore is a store that returns the bodies of pages as files, and counts the files.
type fileStore struct {
	storage.Store
	opened, closed atomic.Int64
}

type testFile struct {
	*bytes.Reader
	store *fileStore
}

func (s *fileStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || !strings.Contains(key, "/pages/") {
		return o, err
	}
	data, err := io.ReadAll(o.Body)
	o.Body = testFile{bytes.NewReader(data), s}
	s.opened.Add(1)
	return o, err
}

func (f testFile) Rewind() error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func (f testFile) Close() error {
	f.store.closed.Add(1)
	return nil
}

// largePage is a size, in bytes, at which a page is too large to be kept in memory.
const largePage = 70_000

// TestOpenFiles: within a second, successive requests for the same page use the same file, and every request gets
// the whole page.
func TestOpenFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fileStore{Store: memory.New()}
		fill(t, store.Store, 2, largePage)
		r := newReader(t, store, feedstore.Config{})
		want, err := r.read(t.Context(), 1)
		check(t, err)
		send := func() {
			t.Helper()
			body, err := r.open(t.Context(), 1)
			check(t, err)
			var got bytes.Buffer
			_, err = body.(io.WriterTo).WriteTo(&got)
			check(t, errors.Join(err, body.Close()))
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("page has %d bytes, want %d", got.Len(), len(want))
			}
		}
		for range 3 {
			send()
		}
		if n := store.opened.Load(); n != 1 {
			t.Errorf("%d files for 4 requests in a row", n)
		}
		var bodies []io.ReadCloser
		for range 3 {
			body, err := r.open(t.Context(), 1)
			check(t, err)
			bodies = append(bodies, body)
		}
		for i, body := range bodies {
			switch i {
			case 0: // closed before its end
				_, err := io.ReadFull(body, make([]byte, 10))
				check(t, err)
			case 1: // not read
			default:
				got, err := io.ReadAll(body)
				check(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("page has %d bytes, want %d", len(got), len(want))
				}
			}
			check(t, body.Close())
		}
		if opened, closed := store.opened.Load(), store.closed.Load(); opened != 3 || closed != 1 {
			t.Errorf("%d files for 3 requests at once, %d closed; want 3, and 1: that of the aborted request", opened, closed)
		}
		send()
		body, err := r.open(t.Context(), 1)
		check(t, err)
		time.Sleep(time.Second)
		send()
		if n := store.opened.Load(); n != 4 {
			t.Errorf("after a second, %d files were opened, want 4", n)
		}
		_, err = io.Copy(io.Discard, body)
		check(t, errors.Join(err, body.Close())) // closed, since the file is too old to be used again
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if opened, closed := store.opened.Load(), store.closed.Load(); opened != closed {
			t.Errorf("%d files remain open without requests", opened-closed)
		}
	})
}

// TestOpenFilesEnd: files that are kept open are limited in number, and closed with the reader.
func TestOpenFilesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fileStore{Store: memory.New()}
		fill(t, store.Store, 200, largePage)
		r := newReader(t, store, feedstore.Config{})
		r.pages(t, 1, 200)
		if n := store.opened.Load() - store.closed.Load(); n == 0 || n > 128 {
			t.Errorf("%d files are open", n)
		}
		body, err := r.open(t.Context(), 200)
		check(t, err)
		r.Close(t.Context())
		_, err = io.Copy(io.Discard, body)
		check(t, errors.Join(err, body.Close()))
		if n := store.opened.Load() - store.closed.Load(); n != 0 {
			t.Errorf("%d files are open after the reader was closed", n)
		}
	})
}

// TestOpenFilesPruned: a page below the floor counts as pruned even if its file is open, or its bytes are in memory.
func TestOpenFilesPruned(t *testing.T) {
	t.Run("open", func(t *testing.T) { testPrunedInUse(t, largePage) })
	t.Run("in memory", func(t *testing.T) { testPrunedInUse(t, 100) })
}

func testPrunedInUse(t *testing.T, size int) {
	synctest.Test(t, func(t *testing.T) {
		store := &fileStore{Store: memory.New()}
		fill(t, store.Store, 3, size)
		r := newReader(t, store, feedstore.Config{})
		r.pages(t, 1, 3) // reads the floor
		time.Sleep(1500 * time.Millisecond)
		r.pages(t, 3, 3) // reads the floor again
		time.Sleep(500 * time.Millisecond)
		r.pages(t, 1, 1)
		_, err := chain.RaiseFloor(t.Context(), store, "f", 3)
		check(t, err)
		time.Sleep(600 * time.Millisecond)
		r.pages(t, 3, 3) // reads the floor again; the file of page 1 is still young enough to be used
		f, err := r.Feed("f")
		check(t, err)
		if _, _, err := f.Open(t.Context(), 1, 0, -1); !errors.Is(err, chain.ErrPruned) {
			t.Errorf("page 1: %v, want pruned", err)
		}
	})
}
