package feedstore_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestSmallPages: within a second, any number of requests share the bytes of a small page, and no file
// stays open for them. After that the page is read, and verified, again.
func TestSmallPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, times := &fileStore{Store: memory.New()}, 0
		fill(t, store.Store, 2, 1000)
		store.Store = corrupting{store.Store, &times, false}
		r := newReader(t, store, feedstore.Config{})
		want, err := r.read(t.Context(), 1)
		check(t, err)
		var bodies []io.ReadCloser
		for range 3 {
			body, err := r.open(t.Context(), 1)
			check(t, err)
			bodies = append(bodies, body)
		}
		for range 2 { // in turn
			for _, body := range bodies {
				_, err := io.ReadFull(body, make([]byte, 10))
				check(t, err)
			}
		}
		if opened, closed := store.opened.Load(), store.closed.Load(); opened != 1 || closed != 1 {
			t.Errorf("%d files for 4 requests, %d closed", opened, closed)
		}
		time.Sleep(time.Second)
		times = 1
		if _, err := r.read(t.Context(), 1); !errors.Is(err, chain.ErrCorrupt) || times != 0 {
			t.Errorf("a page that was damaged a second ago: %v", err)
		}
		for range 2 {
			got, err := r.read(t.Context(), 1)
			check(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("page has %d bytes, want %d", len(got), len(want))
			}
		}
		for _, body := range bodies { // these still have the bytes that were replaced since
			got, err := io.ReadAll(body)
			check(t, errors.Join(err, body.Close()))
			if !bytes.Equal(got, want[20:]) {
				t.Errorf("the rest of the page has %d bytes, want %d", len(got), len(want)-20)
			}
		}
		if opened, closed := store.opened.Load(), store.closed.Load(); opened != 3 || closed != 3 {
			t.Errorf("%d files for 7 requests, %d closed; want 3", opened, closed)
		}
	})
}

// TestSmallPagesAreBounded: the limit includes pages that are being sent. Pages that no request holds make
// room for others; pages for which there is no room are sent from their files.
func TestSmallPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, fit = 60_000, 6 << 20 / 60_000
		store := &fileStore{Store: memory.New()}
		fill(t, store.Store, 2*fit, size)
		r := newReader(t, store, feedstore.Config{})
		var bodies []io.ReadCloser
		for n := range int64(2 * fit) {
			body, err := r.open(t.Context(), n+1)
			check(t, err)
			bodies = append(bodies, body)
		}
		if n := store.opened.Load() - store.closed.Load(); n < fit || n > fit+2 {
			t.Errorf("%d of %d pages are open as files, want half of them", n, 2*fit)
		}
		for _, body := range bodies {
			check(t, body.Close())
		}
		time.Sleep(3 * time.Second) // by then, the files are closed
		synctest.Wait()
		for range 2 {
			r.pages(t, fit+10, 2*fit)
		}
		if n := store.opened.Load() - 2*fit; n != fit-9 {
			t.Errorf("%d pages were read from the store, want %d", n, fit-9)
		}
	})
}
