package consumer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Limits on the pages that are remembered.
const (
	minWay     = 64      // pages; crawls with fewer pages are not remembered
	maxStones  = 1024    // pages that are remembered for each feed
	maxStone   = 1 << 10 // bytes of the URL; pages with a longer one are not remembered
	maxWayFile = 2 << 20 // bytes; larger files are not read
	maxWays    = 256     // files in the directory
	wayEnd     = ".way"  // extension of the file names
)

// A way is a bounded sample of the pages that crawls of a feed have passed, from the newest page to the
// oldest. It is kept in a file, so that a later crawl can begin closer to its goal. It is only a hint:
// a crawl requests a page in it, and continues with the links of that page.
type way struct {
	feed  string
	file  string // "": none
	log   *slog.Logger
	known []milestone // pages that earlier crawls have passed; read from the file
	fresh []milestone // one of every few pages that this crawl has passed
	last  milestone   // that this crawl has passed
	pages int         // that this crawl has passed
	every int         // the stride of fresh, a power of two
}

// A milestone is a page on a way.
type milestone struct {
	At  time.Time `json:"at"` // Last-Modified
	URL string    `json:"url"`
}

// A wayFile is the content of the file.
type wayFile struct {
	Feed  string      `json:"feed"`
	Pages []milestone `json:"pages"`
}

// way returns the way of a feed as it was last saved. The way is empty, and is never saved, if no
// directory is configured, or if the URL contains a signature.
func (s *session) way(feed string) *way {
	w := &way{feed: feed, log: s.config.Logger, every: 1}
	if s.config.Ways == "" || s.web == nil || shown(feed) != feed {
		return w
	}
	sum := sha256.Sum256([]byte(feed))
	w.file = filepath.Join(s.config.Ways, hex.EncodeToString(sum[:16])+wayEnd)
	saved, err := readWay(w.file)
	if err != nil {
		w.log.DebugContext(s.ctx, "the way of earlier searches is not known", "error", err)
	}
	w.known = saved.Pages
	return w
}

func readWay(name string) (saved wayFile, err error) {
	f, err := os.Open(name)
	if err != nil {
		return saved, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxWayFile))
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	if err != nil {
		return wayFile{}, fmt.Errorf("read %s: %w", name, err)
	}
	return saved, nil
}

// since returns the milestones that are not older than t, the oldest first.
func (w *way) since(t time.Time) []milestone {
	stones := slices.DeleteFunc(slices.Clone(w.known), func(m milestone) bool { return m.At.Before(t) })
	slices.Reverse(stones)
	return stones
}

// pass records a page that the crawl has reached.
func (w *way) pass(p *Page) {
	if w.file == "" || len(p.URL) > maxStone || shown(p.URL) != p.URL {
		return
	}
	w.last = milestone{p.LastModified, p.URL}
	if w.pages++; w.pages%w.every == 0 {
		w.fresh = append(w.fresh, w.last)
	}
	if len(w.fresh) > maxStones {
		w.fresh = halved(w.fresh)
		w.every *= 2
	}
}

// halved returns every second milestone.
func halved(stones []milestone) []milestone {
	for i := range len(stones) / 2 {
		stones[i] = stones[2*i+1]
	}
	return stones[:len(stones)/2]
}

// save replaces the file. An error is only logged, since it just makes later crawls take longer.
func (w *way) save() {
	if w.file == "" || w.pages < minWay {
		return
	}
	seen := make(map[string]bool)
	all := slices.DeleteFunc(slices.Concat(w.known, w.fresh, []milestone{w.last}), func(m milestone) bool {
		again := seen[m.URL]
		seen[m.URL] = true
		return again
	})
	slices.SortStableFunc(all, func(a, b milestone) int { return b.At.Compare(a.At) })
	for oldest := all[len(all)-1]; len(all) > maxStones; {
		if all = halved(all); all[len(all)-1] != oldest {
			all = append(all, oldest)
		}
	}
	if err := w.write(all); err != nil {
		w.log.Debug("cannot remember the pages that this search has passed", "error", err)
	}
}

// write replaces the file, and removes files beyond maxWays.
func (w *way) write(stones []milestone) error {
	data, err := json.Marshal(wayFile{w.feed, stones})
	if err != nil {
		return err
	}
	dir := filepath.Dir(w.file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "*"+wayEnd)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), w.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return tidyWays(dir)
}

// tidyWays removes the files that were written longest ago, so that at most maxWays are left.
func tidyWays(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+wayEnd))
	if err != nil || len(names) <= maxWays {
		return err
	}
	written := func(name string) time.Time {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(names, func(a, b string) int { return written(a).Compare(written(b)) })
	for _, name := range names[:len(names)-maxWays] {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// forget removes the file.
func (w *way) forget() {
	if w.file != "" {
		_ = os.Remove(w.file) // if the file remains, its pages are checked when they are used
	}
}
