package feedstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestChangesOfFeed follows one feed through its life.
func TestChangesOfFeed(t *testing.T) {
	for name, store := range map[string]storage.Store{
		"the store notifies": memory.New(),
		"it does not":        struct{ storage.Store }{memory.New()},
		"far":                far(memory.New(), time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
				token := ""
				next := func() string { // the version after the next change
					t.Helper()
					for range 10 {
						c, err := r.Changes(t.Context(), token, "", 10, time.Minute)
						check(t, err)
						if token = c.Token; len(c.Feeds) == 1 && c.Feeds[0].Name == "f" {
							return c.Feeds[0].Version
						} else if len(c.Feeds) > 0 {
							t.Fatalf("changes of %v", c.Feeds)
						}
					}
					t.Fatal("no change was noticed")
					return ""
				}
				publish(t, store, 2, 0, 1, short)
				seen := map[string]bool{next(): true}
				for n := 1; n < 4; n++ { // the page grows, then there is another one
					publish(t, store, 2, n, 1, short)
					version := next()
					if seen[version] || version == "" {
						t.Errorf("after entity %d, the version is %q", n, version)
					}
					seen[version] = true
				}
				_, err := producer.Delete(t.Context(), store, "f", false)
				check(t, err)
				if version := next(); version != "" {
					t.Errorf("after it was deleted, the version is %q", version)
				}
				publish(t, store, 2, 4, 1, short)
				if version := next(); seen[version] || version == "" {
					t.Errorf("after it was deleted and published to, the version is %q", version)
				}
				c, err := r.Changes(t.Context(), "", "", 10, 0)
				check(t, err)
				if len(c.Feeds) != 1 || !c.Complete || c.Token != token || c.Waited {
					t.Errorf("all changes: %+v", c)
				}

				for entry, err := range store.List(t.Context(), layout.FeedPages("f"), "") { // damage it
					check(t, err)
					info, err := store.Stat(t.Context(), entry.Key)
					check(t, err)
					_, err = store.Replace(t.Context(), entry.Key, info.Version, storage.Meta{}, storage.Bytes())
					check(t, err)
				}
				if version := next(); seen[version] || version == "" {
					t.Errorf("after it was damaged, the version is %q", version)
				}
			})
		})
	}
}

// TestChangesOnDisk: what another process writes to a store on disk is noticed by notifications.
func TestChangesOnDisk(t *testing.T) {
	dir := t.TempDir()
	store, err := file.New(dir)
	check(t, err)
	defer store.Close()
	other, err := file.New(dir)
	check(t, err)
	defer other.Close()
	r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
	c, err := r.Changes(t.Context(), "", "", 10, 0)
	check(t, err)
	for n := range 3 {
		publish(t, other, 10, n, 1, short)
		for token := c.Token; ; token = c.Token {
			c, err = r.Changes(t.Context(), token, "", 10, time.Minute)
			check(t, err)
			if len(c.Feeds) > 0 {
				break
			}
		}
	}
}

// TestChangesOfTombstones: so many feeds were deleted that tokens from before are too old.
func TestChangesOfTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, 2, 0, 1, short)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
		first, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		for n := range feedstore.MaxTombstones + 1 {
			r.See(string(rune('a'+n%26))+time.Duration(n).String(), "1")
			r.See(string(rune('a'+n%26))+time.Duration(n).String(), "")
		}
		if _, err := r.Changes(t.Context(), first.Token, "", 10, 0); !errors.Is(err, feedstore.ErrToken) {
			t.Errorf("changes since a token that is too old: %v", err)
		}
		c, err := r.Changes(t.Context(), "", "", 10, 0)
		check(t, err)
		if len(c.Feeds) != 1 || c.Feeds[0].Name != "f" {
			t.Errorf("changes after starting over: %v", c.Feeds)
		}
	})
}
