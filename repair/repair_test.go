package repair_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/repair"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
	"github.com/feedctl/feedctl/verify"
)

// publish appends the entities numbered first to last, two to a page, each in its own commit or all in one.
func publish(ctx context.Context, store storage.Store, name string, atOnce bool, first, last int) error {
	f, err := producer.Open(ctx, store, name, producer.Config{MaxPageEntities: 2})
	if err != nil {
		return err
	}
	var all []*feed.Entity
	for n := first; n <= last; n++ {
		all = append(all, &feed.Entity{ContentID: fmt.Sprintf("<%d@test>", n), Operation: feed.Put, ContentType: "text/plain", Body: fmt.Appendf(nil, "body %d\r\n", n)})
	}
	if atOnce {
		_, err = f.Publish(ctx, all...)
	} else {
		for _, e := range all {
			if err == nil {
				_, err = f.Publish(ctx, e)
			}
		}
	}
	return errors.Join(err, f.Close())
}

// read returns the numbers of all entities of a feed.
func read(t *testing.T, store storage.Store, name string) (numbers []int) {
	t.Helper()
	r := chain.NewReader(store, name)
	newest, err := r.Newest(t.Context())
	if errors.Is(err, chain.ErrNoFeed) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	floor, err := r.Floor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := floor; n <= newest.Number; n++ {
		p, object, err := r.Open(t.Context(), n, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		for part, err := range page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{}).Parts() {
			if err != nil {
				t.Fatal(err)
			}
			var number int
			if _, err := fmt.Sscanf(string(part.Header.Get("Content-ID")), "<%d@test>", &number); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, number)
		}
		if err := object.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return numbers
}

// sound checks that a feed passes verify, needs no repair, and can be published to.
func sound(t *testing.T, store storage.Store, name string) {
	t.Helper()
	before := read(t, store, name)
	if len(before) > 0 {
		report, err := verify.Store(t.Context(), store, name, "")
		if err == nil {
			err = report.Err()
		}
		if err != nil {
			t.Error(err)
		}
		again, err := repair.Feed(t.Context(), store, name, repair.Config{Apply: true})
		if err != nil || len(again.Steps) > 0 {
			t.Errorf("the feed is not sound after a repair: %+v, %v", again, err)
		}
	}
	if err := publish(t.Context(), store, name, true, 101, 105); err != nil {
		t.Errorf("publish after a repair: %v", err)
	}
	if got, want := read(t, store, name), append(before, 101, 102, 103, 104, 105); !slices.Equal(got, want) {
		t.Errorf("the feed has %v, not %v", got, want)
	}
}

// stores returns a store of each kind.
func stores(t *testing.T) map[string]storage.Store {
	t.Helper()
	u, err := url.Parse(s3test.Start(t).URL("repair"))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := s3.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if u, err = url.Parse(pgtest.Start(t).URL("repair")); err != nil {
		t.Fatal(err)
	}
	database, err := postgres.Create(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]storage.Store{"memory": memory.New(), "file": directory, "s3": bucket, "postgres": database}
	t.Cleanup(func() {
		for _, store := range all {
			_ = store.Close()
		}
	})
	return all
}

// TestLostObjects removes each page of a feed in turn, and its floor. verify must report the loss, producers
// must not replace what is lost, and a repair must make the feed sound.
func TestLostObjects(t *testing.T) {
	for kind, store := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			for n, c := range []struct {
				lost string // key after the feed's
				left []int  // entities after the repair
			}{
				{"pages/000000000003", []int{7}}, // the oldest
				{"pages/000000000004", []int{5, 6}},
				{"pages/000000000005", []int{5, 6, 7, 8}}, // the newest: its loss cannot be detected
				{"floor", []int{5, 6, 7, 8, 9}},
			} {
				name := fmt.Sprint("feed", n)
				if err := publish(ctx, store, name, true, 1, 9); err != nil {
					t.Fatal(err)
				}
				if _, err := chain.RaiseFloor(ctx, store, name, 3); err != nil {
					t.Fatal(err)
				}
				for n := range int64(2) {
					if err := store.Delete(ctx, layout.FeedPage(name, n+1)); err != nil {
						t.Fatal(err)
					}
				}
				if strings.HasSuffix(c.lost, "3") {
					c.left = []int{7, 8, 9}
				}
				if err := store.Delete(ctx, layout.FeedsPrefix+name+"/"+c.lost); err != nil {
					t.Fatal(err)
				}
				harmless := strings.HasSuffix(c.lost, "5")
				report, err := verify.Store(ctx, store, name, "")
				if err != nil {
					t.Fatal(err)
				}
				if err := report.Err(); (err == nil) != harmless || err != nil && !strings.Contains(err.Error(), "missing") {
					t.Errorf("%s lost: verify returned %v", c.lost, err)
				}
				if !harmless {
					if err := publish(ctx, store, name, true, 50, 50); !errors.Is(err, chain.ErrCorrupt) {
						t.Errorf("%s lost: publish returned %v", c.lost, err)
					}
				}
				dry, err := repair.Feed(ctx, store, name, repair.Config{})
				if err != nil || dry.Applied || (len(dry.Steps) == 0) != harmless {
					t.Errorf("%s lost: %+v, %v", c.lost, dry, err)
				}
				if _, err := repair.Feed(ctx, store, name, repair.Config{Apply: true}); err != nil {
					t.Fatalf("%s lost: %v", c.lost, err)
				}
				if got := read(t, store, name); !slices.Equal(got, c.left) {
					t.Errorf("%s lost: the feed has %v, not %v", c.lost, got, c.left)
				}
				for _, loss := range dry.Lost {
					if loss.Aside == "" {
						continue
					}
					if _, err := store.Stat(ctx, loss.Aside); err != nil {
						t.Errorf("%s lost: page %d is not kept: %v", c.lost, loss.Page, err)
					}
				}
				sound(t, store, name)
			}
		})
	}
}

// TestIntactFeed repairs an intact feed.
func TestIntactFeed(t *testing.T) {
	store := memory.New()
	if _, err := repair.Feed(t.Context(), store, "zones", repair.Config{Apply: true}); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("no feed: %v", err)
	}
	if err := publish(t.Context(), store, "zones", false, 1, 9); err != nil {
		t.Fatal(err)
	}
	report, err := repair.Feed(t.Context(), store, "zones", repair.Config{Apply: true})
	if err != nil || len(report.Steps)+len(report.Lost) > 0 || report.Oldest != 1 || report.Newest != 5 {
		t.Errorf("%+v, %v", report, err)
	}
	sound(t, store, "zones")
}

// TestLostFile removes or truncates each file of a store. An entity whose bytes are left
// must not be lost, unless its page is incomplete.
func TestLostFile(t *testing.T) {
	for name, cut := range map[string]bool{"removed": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 0; loseFile(t, n, cut); n++ {
			}
		})
	}
}

// loseFile removes or, with cut, truncates file n of a store. It returns false if the store has no more
// files.
func loseFile(t *testing.T, n int, cut bool) bool {
	dir := t.TempDir()
	store, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(t.Context(), store, "zones", false, 1, 7); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "objects/feeds/zones/pages/*"))
	if err != nil {
		t.Fatal(err)
	}
	if n == len(files) {
		return false
	}
	path := files[n]
	name := filepath.Base(path)
	body := !strings.HasSuffix(name, "@meta")
	pageNumber := int(name[11] - '0')
	want := []int{1, 2, 3, 4, 5, 6, 7}
	if cut {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()*3/4) // of a body, within its second entity
		}
		if err != nil {
			t.Fatal(err)
		}
	} else if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if body {
		want = want[:2*pageNumber-2]
		if cut && pageNumber < 4 {
			want = append(want, 2*pageNumber-1)
		}
		if !cut && pageNumber == 1 {
			want = []int{3, 4, 5, 6, 7} // as if it had been pruned
		}
	}
	report, err := repair.Feed(t.Context(), store, "zones", repair.Config{Apply: true})
	if err != nil {
		t.Fatalf("%s, cut %v: %v", name, cut, err)
	}
	if got := read(t, store, "zones"); !slices.Equal(got, want) {
		t.Errorf("%s, cut %v: the feed has %v, not %v; %+v", name, cut, got, want, report)
	}
	sound(t, store, "zones")
	return true
}

// TestLiveCopy copies the files of a store one by one, in either order, while entities are being
// published.
func TestLiveCopy(t *testing.T) {
	t.Parallel()
	for _, backwards := range []bool{false, true} {
		for every := 1; every < 6; every++ {
			from, to := t.TempDir(), t.TempDir()
			store, err := file.New(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := publish(t.Context(), store, "zones", false, 1, 5); err != nil {
				t.Fatal(err)
			}
			next := 6
			count := 0
			var walk func(dir string)
			walk = func(dir string) {
				entries, err := os.ReadDir(filepath.Join(from, dir)) // as they are when the copy begins
				if err != nil {
					t.Fatal(err)
				}
				if backwards {
					slices.Reverse(entries)
				}
				for _, e := range entries {
					path := filepath.Join(dir, e.Name())
					if e.IsDir() {
						if err := os.MkdirAll(filepath.Join(to, path), 0o777); err != nil {
							t.Fatal(err)
						}
						walk(path)
						continue
					}
					data, err := os.ReadFile(filepath.Join(from, path))
					if errors.Is(err, os.ErrNotExist) {
						continue
					}
					if err == nil {
						err = os.WriteFile(filepath.Join(to, path), data, 0o666)
					}
					if err != nil {
						t.Fatal(err)
					}
					if count++; count%every == 0 && strings.Contains(path, "pages") {
						if err := publish(t.Context(), store, "zones", false, next, next); err != nil {
							t.Fatal(err)
						}
						next++
					}
				}
			}
			walk("")
			copied, err := file.New(to)
			if err != nil {
				t.Fatal(err)
			}
			report, err := repair.Feed(t.Context(), copied, "zones", repair.Config{Apply: true})
			if err != nil {
				t.Fatalf("every %d, backwards %v: %v", every, backwards, err)
			}
			got := read(t, copied, "zones")
			if len(got) < 4 || !slices.Equal(got, read(t, store, "zones")[:len(got)]) {
				t.Errorf("every %d, backwards %v: the copy has %v; %+v", every, backwards, got, report)
			}
			sound(t, copied, "zones")
		}
	}
}

// An interrupted store fails after a number of writes.
type interrupted struct {
	storage.Store
	storage.Recoverer
	left int
}

var errInterrupted = errors.New("interrupted")

func (s *interrupted) step() error {
	if s.left--; s.left < 0 {
		return errInterrupted
	}
	return nil
}

func (s *interrupted) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if err := s.step(); err != nil {
		return "", err
	}
	return s.Store.Create(ctx, key, meta, body)
}

func (s *interrupted) Delete(ctx context.Context, key string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s *interrupted) Restore(ctx context.Context, r storage.Leftover, size int64, meta storage.Meta) (storage.Version, error) {
	if err := s.step(); err != nil {
		return "", err
	}
	return s.Recoverer.Restore(ctx, r, size, meta)
}

// TestInterrupted interrupts a repair after each of its writes. The next repair must complete it, and every
// surviving page must be in the feed or aside.
func TestInterrupted(t *testing.T) {
	for writes, done := 0, false; !done; writes++ {
		dir := t.TempDir()
		store, err := file.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(t.Context(), store, "zones", true, 1, 11); err != nil {
			t.Fatal(err)
		}
		pages := filepath.Join(dir, "objects/feeds/zones/pages")
		if err := errors.Join(os.Remove(filepath.Join(pages, "000000000002@meta")), store.Delete(t.Context(), layout.FeedPage("zones", 3)),
			os.Remove(filepath.Join(pages, "000000000005@meta"))); err != nil {
			t.Fatal(err)
		}
		_, err = repair.Feed(t.Context(), &interrupted{store, store, writes}, "zones", repair.Config{Apply: true})
		if done = err == nil; !done && !errors.Is(err, errInterrupted) {
			t.Fatal(err)
		}
		if _, err := repair.Feed(t.Context(), store, "zones", repair.Config{Apply: true}); err != nil {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		if got := read(t, store, "zones"); !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("after %d writes: the feed has %v", writes, got)
		}
		var aside string
		for entry, err := range store.List(t.Context(), layout.FeedAside("zones"), "") {
			if err != nil {
				t.Fatal(err)
			}
			object, err := store.Get(t.Context(), entry.Key, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(object.Body)
			if err := errors.Join(err, object.Body.Close()); err != nil {
				t.Fatal(err)
			}
			aside += string(body)
		}
		for n := 7; n <= 11; n++ {
			if !strings.Contains(aside, fmt.Sprintf("<%d@test>", n)) {
				t.Errorf("after %d writes: entity %d is not aside", writes, n)
			}
		}
		sound(t, store, "zones")
	}
}
