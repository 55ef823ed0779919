package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestSilentStore: the server waits a few seconds for a store that does not respond, even
// if the driver waits longer.
func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), 0)
		fill(t, store, "f", 1, 1000)
		c := inside(t, newServer(t, store, server.Config{}))
		c.get(t, "/feeds/f")
		store.latency = time.Minute
		for _, path := range []string{"/feeds/none", "/feeds/f", "/feeds/f/pages/1"} {
			time.Sleep(time.Hour) // everything read before is out of date, and no request is in flight
			start := time.Now()
			got := c.get(t, path)
			name, _ := got.problem(t)
			if took := time.Since(start); got.StatusCode != http.StatusServiceUnavailable || name != "store-away" || took > 5*time.Second {
				t.Errorf("%s: %s, %s after %v", path, got.Status, name, took)
			}
		}
	})
}

// TestStoreAway removes the directory of a store that is being served, puts another one in
// its place, and restores it. Without the store the server is not ready, and feeds are
// unavailable instead of missing.
func TestStoreAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store, err := file.New(dir)
	check(t, err)
	defer store.Close()
	web, err := server.New(store, server.Config{Operations: true})
	check(t, err)
	c := inside(t, web)
	want := func(state string, ready, feed int) {
		t.Helper()
		if got := c.get(t, "/readyz").StatusCode; got != ready {
			t.Errorf("%s: /readyz answers %d, want %d", state, got, ready)
		}
		if got := c.get(t, "/feeds/none").StatusCode; got != feed {
			t.Errorf("%s: a feed answers %d, want %d", state, got, feed)
		}
	}
	want("there", http.StatusOK, http.StatusNotFound)
	check(t, os.Rename(dir, dir+".aside"))
	want("away", http.StatusServiceUnavailable, http.StatusServiceUnavailable)
	other, err := file.New(dir)
	check(t, err)
	check(t, other.Close())
	want("another", http.StatusServiceUnavailable, http.StatusServiceUnavailable)
	check(t, os.Rename(dir, dir+".other"))
	check(t, os.Rename(dir+".aside", dir))
	want("back", http.StatusOK, http.StatusNotFound)
}
