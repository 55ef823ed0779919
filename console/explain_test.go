package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestExplain: the page of an error says what a person can do about it.
func TestExplain(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct {
		status int
		detail string
	}{
		storage.ErrNoStore:     {http.StatusServiceUnavailable, "The store does not exist. Is its disk mounted?"},
		storage.ErrUnavailable: {http.StatusServiceUnavailable, "The store does not respond."},
	} {
		if p := explain(fmt.Errorf("read: %w", err)); p.Status != want.status || p.Detail != want.detail {
			t.Errorf("%v is explained as %d %q, want %d %q", err, p.Status, p.Detail, want.status, want.detail)
		}
	}
	c := newConsole(t, memory.New(), func(c *Config) { c.ReadAuth = Credentials([]server.Credential{{Username: "ann", Password: "x"}}) })
	expect(t, "/", shows(t, c, "/", http.StatusUnauthorized), "This console needs credentials. Reload the page to enter them.")
}

// TestCurl: if a server of feeds requires credentials for reading, the commands for it ask for the password.
func TestCurl(t *testing.T) {
	t.Parallel()
	const open, closed = "curl https://feeds.example/feeds/zones/pages/1", "curl -u USER https://feeds.example/feeds/zones/pages/1"
	readers := Credentials([]server.Credential{{Username: "ann", Password: "x"}})
	for want, change := range map[string]func(*Config){
		open:   func(c *Config) { c.WriteAuth = readers },
		closed: func(c *Config) { c.ReadAuth = readers },
	} {
		store := memory.New()
		writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", "1")})
		c := newConsole(t, store, func(c *Config) { c.FeedsURL = "https://feeds.example"; change(c) })
		w := get(c, "/page?feed=zones&n=1", "Authorization: Basic YW5uOng=")
		expect(t, "/page", w.Body.String(), "<code>"+want+"</code>")
	}
}

// TestStoreGone: a store that is gone is not shown as an empty one.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	store, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", "1")})
	c := newConsole(t, store, nil)
	if err := os.Rename(dir, dir+".aside"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/feeds", "/feed?name=zones", "/snapshots", "/map", "/search?q=x&feed=zones"} {
		expect(t, path, shows(t, c, path, http.StatusServiceUnavailable), "Is its disk mounted?")
	}
}
