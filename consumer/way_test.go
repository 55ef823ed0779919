package consumer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// longText returns the text of a feed of n pages, with one entity each and one second apart.
func longText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d |", letters(i), i)
	}
	return b.String()
}

// letters returns a name for a number, written in letters only.
func letters(i int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(i))
}

// crawls returns how many HEAD requests a client sends to find a start, and the first Content-ID.
func crawls(t *testing.T, w *world, c Config, start Start) (heads int, first string) {
	t.Helper()
	w.requests()
	for e, err := range w.newClient(c).Entities(t.Context(), feedURL, start) {
		if err != nil {
			t.Fatal(err)
		}
		first = e.ContentID
		break
	}
	return count(w.requests(), "HEAD"), first
}

// TestWay: if a feed has only prev and next links, a second search takes few requests, whatever its
// goal.
func TestWay(t *testing.T) {
	const pages = 3000
	inWorld(t, newFeed(longText(pages)), func(t *testing.T, w *world) {
		c := Config{Ways: filepath.Join(t.TempDir(), "cache", "ways")}
		if heads, first := crawls(t, w, c, Since(second(500))); heads != pages-500+1 || first != letters(500) {
			t.Errorf("first search: %d requests, begins with %s", heads, first)
		}
		for n, most := range map[int]int{2999: 2, 2500: 10, 1501: 10, 500: 10, 499: 10} {
			if heads, first := crawls(t, w, c, Since(second(n))); heads > most || first != letters(n) {
				t.Errorf("since second %d: %d requests, begins with %s", n, heads, first)
			}
		}
		if heads, first := crawls(t, w, c, Beginning()); heads > 510 || first != letters(0) {
			t.Errorf("the beginning: %d requests, begins with %s", heads, first)
		}
		if heads, first := crawls(t, w, c, Beginning()); heads > 2 || first != letters(0) {
			t.Errorf("the beginning again: %d requests, begins with %s", heads, first)
		}
	})
}

// TestWayOfPrunedFeed: a search succeeds although pages on the way have been pruned.
func TestWayOfPrunedFeed(t *testing.T) {
	const pages = 3000
	f := newFeed(longText(pages))
	inWorld(t, f, func(t *testing.T, w *world) {
		c := Config{Ways: t.TempDir()}
		crawls(t, w, c, Beginning())
		for _, floor := range []int{2, 100, 1500, 2999, 3000} {
			f.prune(floor)
			if heads, first := crawls(t, w, c, Beginning()); heads > 25 || first != letters(floor-1) {
				t.Errorf("floor %d: %d requests, begins with %s", floor, heads, first)
			}
		}
	})
}

// TestWayResumes: after an interrupted search, the next one continues close to where it was.
func TestWayResumes(t *testing.T) {
	const pages = 3000
	inWorld(t, newFeed(longText(pages)), func(t *testing.T, w *world) {
		c := Config{Ways: t.TempDir(), MaxPages: 2000}
		if _, err := ids(t, w.newClient(c), Beginning()); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		if heads, first := crawls(t, w, c, Beginning()); heads != pages-2000+2 || first != letters(0) {
			t.Errorf("%d requests, begins with %s", heads, first)
		}
	})
}

// TestWrongWays: the entities are those of the feed, whatever the file contains.
func TestWrongWays(t *testing.T) {
	const pages = 200
	f := newFeed(longText(pages))
	want := strings.Join(f.all(), " ")
	abandoned := newFeed("x0 | y1 | z2") // at other URLs
	abandoned.links = func(n int, l *feed.Links) {
		for _, link := range []*string{&l.Self, &l.Prev, &l.Next} {
			*link = strings.Replace(*link, "/feed/", "/former/", 1)
		}
	}
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n := 0; strings.HasPrefix(r.URL.Path, "/former/") {
			_, _ = fmt.Sscanf(r.URL.Path, "/former/%d", &n)
			abandoned.serve(rw, r, n)
			return
		}
		f.ServeHTTP(rw, r)
	})
	page := func(n, at int) string {
		data, err := json.Marshal(milestone{second(at), pageURL + fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, content := range map[string]string{
		"empty":                    "",
		"not JSON":                 "{",
		"another type":             `[1,2]`,
		"no page":                  `{"pages":[]}`,
		"no URL":                   `{"pages":[{},{"url":"mailto:x"},{"url":"%zz"}]}`,
		"another origin":           `{"pages":[{"at":"2024-01-01T00:00:00Z","url":"https://evil.example/feed/1"}]}`,
		"too early":                `{"pages":[` + page(100, 1) + `]}`,
		"too late":                 `{"pages":[` + page(100, 5000) + `]}`,
		"right":                    `{"pages":[` + page(100, 99) + `]}`,
		"the newest page":          `{"pages":[` + page(200, 199) + `]}`,
		"the oldest page":          `{"pages":[` + page(1, 0) + `]}`,
		"a missing page":           `{"pages":[` + page(999, 0) + `]}`,
		"end of an abandoned feed": `{"pages":[{"at":"2024-01-01T00:00:02Z","url":"http://feed.test/former/3"}]}`,
		"pages of different kinds": `{"pages":[` + page(200, 199) + "," + page(100, 1) + "," + page(999, 0) + `]}`,
	} {
		inWorld(t, handler, func(t *testing.T, w *world) {
			c := Config{Ways: t.TempDir()}
			crawls(t, w, c, Beginning())
			files, err := filepath.Glob(filepath.Join(c.Ways, "*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := os.WriteFile(files[0], []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := ids(t, w.newClient(c), Beginning()); err != nil || got != want {
				t.Errorf("%s: %d entities, %v", name, len(strings.Fields(got)), err)
			}
			if count(w.requests(), "HEAD evil") > 0 {
				t.Errorf("%s: a request was sent to another origin", name)
			}
		})
	}
	// Pages of a feed that was replaced by another feed remain, like files on a static host. They can
	// be told from pages of the new feed only when their end is reached.
	inWorld(t, handler, func(t *testing.T, w *world) {
		c := Config{Ways: t.TempDir()}
		crawls(t, w, c, Beginning())
		files, _ := filepath.Glob(filepath.Join(c.Ways, "*"))
		if err := os.WriteFile(files[0], []byte(`{"pages":[{"at":"2024-01-01T00:00:00Z","url":"http://feed.test/former/1"}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ids(t, w.newClient(c), Beginning()); !errors.Is(err, ErrTimeline) {
			t.Errorf("an abandoned feed: %q, %v", got, err)
		}
		if got, err := ids(t, w.newClient(c), Beginning()); err != nil || got != want {
			t.Errorf("after that: %d entities, %v", len(strings.Fields(got)), err)
		}
	})
}

// TestWayIsBounded: the number of files and the size of each are limited, and a file that cannot be
// written does no harm.
func TestWayIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxWays + 5 {
		name := filepath.Join(dir, fmt.Sprintf("%032d%s", i, wayEnd))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, second(i)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "notes.json")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, newFeed(longText(5000)), func(t *testing.T, w *world) {
		crawls(t, w, Config{Ways: dir}, Beginning())
		files, err := filepath.Glob(filepath.Join(dir, "*"+wayEnd))
		if err != nil || len(files) != maxWays {
			t.Errorf("%d files, %v", len(files), err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Error(err)
		}
		way := newest(t, files)
		saved, err := readWay(way)
		if err != nil || len(saved.Pages) > maxStones+1 || len(saved.Pages) < maxStones/2 || saved.Pages[len(saved.Pages)-1].URL != pageURL+"1" {
			t.Errorf("%d pages, %v", len(saved.Pages), err)
		}
		if info, err := os.Stat(way); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{file, filepath.Join(file, "below"), "/proc/none"} {
			if _, first := crawls(t, w, Config{Ways: wrong}, Beginning()); first != letters(0) {
				t.Errorf("%s: begins with %s", wrong, first)
			}
		}
	})
}

// TestWayInMemory: the number of pages that a crawl remembers while it runs is bounded.
func TestWayInMemory(t *testing.T) {
	w := &way{file: "x", every: 1}
	for i := range 100_000 {
		w.pass(&Page{URL: fmt.Sprint(pageURL, i)})
		if len(w.fresh) > maxStones {
			t.Fatalf("%d pages after %d", len(w.fresh), i+1)
		}
	}
	if len(w.fresh) < maxStones/2 {
		t.Errorf("%d pages in the end", len(w.fresh))
	}
}

func newest(t *testing.T, files []string) (last string) {
	t.Helper()
	var at time.Time
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().After(at) {
			last, at = name, info.ModTime()
		}
	}
	return last
}

// TestWayKeepsNoSecrets: the file contains neither credentials nor signatures.
func TestWayKeepsNoSecrets(t *testing.T) {
	for _, at := range []string{"http://user:secret@feed.test/feed", feedURL + "?X-Amz-Signature=secret"} {
		f := newFeed(longText(200))
		inWorld(t, f, func(t *testing.T, w *world) {
			c := Config{Ways: t.TempDir(), Credentials: Credentials{}}
			for _, err := range w.newClient(c).Entities(t.Context(), at, Beginning()) {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			files, err := filepath.Glob(filepath.Join(c.Ways, "*"))
			if err != nil || len(files) > 1 {
				t.Fatal(files, err)
			}
			for _, name := range files {
				data, err := os.ReadFile(name)
				if err != nil || bytes.Contains(data, []byte("secret")) {
					t.Errorf("%s\n%v", data, err)
				}
			}
		})
	}
}

// TestSearching: a long crawl reports how far it has come, and how much longer it takes.
func TestSearching(t *testing.T) {
	const pages = 3000
	f := newFeed(longText(pages))
	f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method == http.MethodHead {
			time.Sleep(30 * time.Millisecond)
		}
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		var log bytes.Buffer
		var seen []Search
		c := Config{Searching: func(s Search) { seen = append(seen, s) }, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		crawls(t, w, c, Since(second(1000)))
		if end := seen[len(seen)-1]; end != (Search{}) {
			t.Errorf("at the end %+v", end)
		}
		seen = seen[:len(seen)-1]
		half := seen[len(seen)/2-1]
		if len(seen) != 2000 || half.Pages != 1001 || !half.At.Equal(second(1999)) || half.Left < 25*time.Second || half.Left > 35*time.Second {
			t.Errorf("%d reports; after half of them %+v", len(seen), half)
		}
		if last := seen[len(seen)-1]; !last.At.Equal(second(999)) || last.Left > time.Second {
			t.Errorf("at last %+v", last)
		}
		seen = nil
		c.Ways = t.TempDir()
		c.Searching = func(s Search) {
			seen = append(seen, s)
			files, err := filepath.Glob(filepath.Join(c.Ways, "*"))
			if saved := s.Pages > 2001; err != nil || s.Pages > 0 && saved != (len(files) == 1) { // after a minute
				t.Fatalf("after %d pages: %q, %v", s.Pages, files, err)
			}
		}
		crawls(t, w, c, Beginning())
		if half := seen[len(seen)/2]; half.Left >= 0 {
			t.Errorf("unexpected estimate: %+v", half)
		}
	})
}
