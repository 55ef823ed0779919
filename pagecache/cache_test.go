package pagecache_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/pagecache"
)

// newPage returns page n of a feed with a body of the given size.
func newPage(n int64, size int) (*chain.Page, []byte) {
	body := bytes.Repeat([]byte{byte(n)}, size)
	sum := sha256.Sum256(body)
	at := time.UnixMilli(1_700_000_000_000 + n).UTC()
	return &chain.Page{
		Feed: "f", Number: n, Boundary: "b", Entities: 1, First: at, Last: at, LastContentID: "<1>",
		SHA256: hex.EncodeToString(sum[:]), Prev: strings.Repeat("0", 64), Closed: true, Size: int64(size),
	}, body
}

func open(t *testing.T, dir string, size int64) *pagecache.Cache {
	t.Helper()
	c, err := pagecache.Open(pagecache.Config{Dir: dir, Size: size})
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns part of a cached page, or "none".
func read(t *testing.T, c *pagecache.Cache, p *chain.Page, offset, length int64) string {
	t.Helper()
	body, ok := c.Open(p, offset, length)
	if !ok {
		return "none"
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	check(t, err)
	return string(data)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	check(t, err)
	return paths
}

func TestSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, pagecache.MinSize)
	p, body := newPage(1, 5000)
	p.Checkpoint = []byte("of the producer")
	if got := read(t, c, p, 0, -1); got != "none" || c.Has("f", 1) {
		t.Errorf("before: %.20q", got)
	}
	c.Keep(p, body)
	for range 2 {
		if got := read(t, c, p, 0, -1); got != string(body) || !c.Has("f", 1) {
			t.Errorf("got %.20q", got)
		}
		if got := read(t, c, p, 4990, 100); got != string(body[4990:]) {
			t.Errorf("got %.20q", got)
		}
		meta, ok := c.Meta("f", 1)
		want := *p
		want.Checkpoint = nil
		if diff := cmp.Diff(&want, meta, cmp.AllowUnexported(want)); !ok || diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		check(t, c.Close())
		c = open(t, dir, pagecache.MinSize)
	}
	// A page with the same number in another chain is a different page.
	other := *p
	other.Prev = strings.Repeat("1", 64)
	if got := read(t, c, &other, 0, -1); got != "none" {
		t.Errorf("page of another chain: %.20q", got)
	}
	if s := c.Stats(); s.Pages != 0 || s.Bytes != 0 || len(files(t, dir)) != 0 {
		t.Errorf("after that: %+v, %q", s, files(t, dir))
	}
}

// A page whose file is damaged in any way is treated as not cached.
func TestDamage(t *testing.T) {
	p, body := newPage(1, 5000)
	for name, damage := range map[string]func(data []byte) []byte{
		"flipped bit in the body":     func(d []byte) []byte { d[2500] ^= 1; return d },
		"flipped bit in the metadata": func(d []byte) []byte { d[5100] ^= 1; return d },
		"flipped bit in the length":   func(d []byte) []byte { d[len(d)-12] ^= 1; return d },
		"flipped bit in the magic":    func(d []byte) []byte { d[len(d)-1] ^= 1; return d },
		"cut short":                   func(d []byte) []byte { return d[:4000] },
		"too long":                    func(d []byte) []byte { return append(d, 0) },
		"empty":                       func([]byte) []byte { return nil },
		"zeros":                       func(d []byte) []byte { return make([]byte, len(d)) },
	} {
		for _, when := range []string{"while closed", "while open, long ago"} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					c := open(t, dir, pagecache.MinSize)
					c.Keep(p, body)
					check(t, c.Close())
					path := files(t, dir)[0]
					data, err := os.ReadFile(path)
					check(t, err)
					if when == "while closed" {
						check(t, os.WriteFile(path, damage(data), 0o666))
						c = open(t, dir, pagecache.MinSize)
					} else {
						c = open(t, dir, pagecache.MinSize)
						read(t, c, p, 0, -1)
						check(t, os.WriteFile(path, damage(data), 0o666))
						time.Sleep(time.Hour)
					}
					if got := read(t, c, p, 0, -1); got != "none" {
						t.Errorf("damaged page reads as %.20q", got)
					}
					if s := c.Stats(); s.Damaged != 1 || s.Pages != 0 || len(files(t, dir)) > 0 {
						t.Errorf("after that: %+v, %q", s, files(t, dir))
					}
					c.Keep(p, body)
					if got := read(t, c, p, 0, -1); got != string(body) {
						t.Errorf("after it was cached again: %.20q", got)
					}
				})
			})
		}
	}
}

// A body that does not match its page's digest is not cached.
func TestVerifiesBeforeCaching(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, pagecache.MinSize)
	p, body := newPage(1, 5000)
	wrong := bytes.Clone(body)
	wrong[0] ^= 1
	for _, b := range [][]byte{wrong, body[:4999], append(bytes.Clone(body), 1), nil} {
		w := c.Create(p)
		_, _ = w.Write(b)
		w.Commit()
		if got := read(t, c, p, 0, -1); got != "none" {
			t.Errorf("wrote %.20q", got)
		}
		if c.Keep(p, b[:min(len(b), 4999)]); c.Has("f", 1) {
			t.Error("kept a body of the wrong size")
		}
	}
	w := c.Create(p)
	_, _ = w.Write(body)
	w.Abort()
	if s := c.Stats(); s.Pages != 0 || s.Bytes != 0 || s.Errors != 0 || len(files(t, dir)) > 0 {
		t.Errorf("left behind: %+v, %q", s, files(t, dir))
	}
}

// The size of the directory never exceeds the limit, and the pages that were used last are kept.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, dir, pagecache.MinSize)
		keep := func(from, to int64) {
			for n := from; n <= to; n++ {
				time.Sleep(time.Hour)
				p, body := newPage(n, 100_000)
				c.Keep(p, body)
				if s := c.Stats(); s.Bytes > pagecache.MinSize || diskUse(t, dir) > pagecache.MinSize {
					t.Fatalf("the cache takes %d bytes on disk and counts %d", diskUse(t, dir), s.Bytes)
				}
			}
		}
		keep(1, 5)
		first, firstBody := newPage(1, 100_000)
		sending, ok := c.Open(first, 0, -1)
		if !ok {
			t.Fatal("page 1 is missing")
		}
		keep(6, 13)
		kept := func() (numbers []int64) {
			for n := int64(1); n <= 100; n++ {
				if c.Has("f", n) {
					numbers = append(numbers, n)
				}
			}
			return numbers
		}
		if diff := cmp.Diff([]int64{1, 6, 7, 8, 9, 10, 11, 12, 13}, kept()); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		keep(14, 18)
		check(t, c.Close())
		c = open(t, dir, pagecache.MinSize) // the order of use is still known
		keep(19, 21)
		if diff := cmp.Diff([]int64{13, 14, 15, 16, 17, 18, 19, 20, 21}, kept()); diff != "" {
			t.Errorf("cached after a restart (-want +got):\n%s", diff)
		}
		// Page 1 was removed while its body was being read.
		data, err := io.ReadAll(sending)
		check(t, err)
		check(t, sending.Close())
		if !bytes.Equal(data, firstBody) {
			t.Errorf("the page that was being sent has %d bytes", len(data))
		}
		large, body := newPage(50, pagecache.MinSize/2)
		if c.Keep(large, body); c.Has("f", 50) || len(kept()) != 9 {
			t.Errorf("a page of half the cache size replaced others: %v", kept())
		}
	})
}

func diskUse(t *testing.T, dir string) (total int64) {
	t.Helper()
	for _, path := range files(t, dir) {
		info, err := os.Stat(path)
		check(t, err)
		total += info.Size()
	}
	return total
}

// A smaller size takes effect when the cache is opened, and includes pages that are being written.
func TestSmallerSize(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 4*pagecache.MinSize)
	for n := range int64(30) {
		p, body := newPage(n+1, 100_000)
		c.Keep(p, body)
	}
	check(t, c.Close())
	c = open(t, dir, pagecache.MinSize)
	if s := c.Stats(); s.Bytes > pagecache.MinSize || s.Pages != 9 {
		t.Errorf("reopened with a smaller size: %+v", s)
	}
	var writers []*pagecache.Writer
	for n := range int64(30) {
		p, _ := newPage(n+101, 100_000)
		if w := c.Create(p); w != nil {
			writers = append(writers, w)
		}
	}
	if s := c.Stats(); len(writers) != 9 || s.Bytes > pagecache.MinSize {
		t.Errorf("%d pages are being written: %+v", len(writers), s)
	}
	for _, w := range writers {
		w.Abort()
	}
	if s := c.Stats(); s.Bytes != 0 {
		t.Errorf("after the writers were aborted: %+v", s)
	}
}

// TestCrash kills a process while it is writing a page.
func TestCrash(t *testing.T) {
	p, body := newPage(1, 200_000)
	if dir := os.Getenv("PAGECACHE_CRASH"); dir != "" {
		c := open(t, dir, pagecache.MinSize)
		kept, keptBody := newPage(2, 200_000)
		c.Keep(kept, keptBody)
		_, _ = c.Create(p).Write(body[:100_000])
		fmt.Println("half-written")
		_, _ = io.Copy(io.Discard, os.Stdin) // there is no input, so this waits until the process is killed
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
	cmd.Env = append(os.Environ(), "PAGECACHE_CRASH="+dir)
	_, err := cmd.StdinPipe() // the pipe stays open
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line := make([]byte, len("half-written"))
	_, err = io.ReadFull(out, line)
	check(t, err)
	if _, err := pagecache.Open(pagecache.Config{Dir: dir, Size: pagecache.MinSize}); !errors.Is(err, pagecache.ErrInUse) {
		t.Errorf("open the directory of another process: %v", err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // returns an error, since the process was killed
	if left := files(t, dir); len(left) != 2 {
		t.Errorf("the process left %q, not a page and a half", left)
	}
	c := open(t, dir, pagecache.MinSize)
	kept, keptBody := newPage(2, 200_000)
	if got := read(t, c, p, 0, -1); got != "none" {
		t.Errorf("half-written page reads as %.20q", got)
	}
	if got := read(t, c, kept, 0, -1); got != string(keptBody) {
		t.Errorf("complete page reads as %.20q", got)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("the directory has %q", left)
	}
}

// TestDiskErrors: disk errors cause one warning and no failures, and caching resumes when the
// errors no longer occur.
func TestDiskErrors(t *testing.T) {
	p, body := newPage(1, 5000)
	for name, refuse := range map[string]func(t *testing.T, dir string) (allow func()){
		"tmp is a file": func(t *testing.T, dir string) func() {
			check(t, os.RemoveAll(filepath.Join(dir, "tmp")))
			check(t, os.WriteFile(filepath.Join(dir, "tmp"), nil, 0o666))
			return func() { check(t, os.Remove(filepath.Join(dir, "tmp"))) }
		},
		"pages is a file": func(t *testing.T, dir string) func() {
			check(t, os.RemoveAll(filepath.Join(dir, "pages")))
			check(t, os.WriteFile(filepath.Join(dir, "pages"), nil, 0o666))
			return func() {
				check(t, os.Remove(filepath.Join(dir, "pages")))
				check(t, os.Mkdir(filepath.Join(dir, "pages"), 0o777))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				dir := t.TempDir()
				c, err := pagecache.Open(pagecache.Config{Dir: dir, Size: pagecache.MinSize, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				check(t, err)
				defer c.Close()
				allow := refuse(t, dir)
				for range 3 {
					c.Keep(p, body)
					if got := read(t, c, p, 0, -1); got != "none" {
						t.Errorf("got %.20q", got)
					}
					time.Sleep(30 * time.Second)
				}
				if s := c.Stats(); !s.Off || s.Errors != 2 || s.Bytes != 0 || strings.Count(log.String(), "level=WARN") != 1 {
					t.Errorf("got %+v and %s", s, log.String())
				}
				time.Sleep(time.Hour)
				allow()
				c.Keep(p, body)
				if got := read(t, c, p, 0, -1); got != string(body) || c.Stats().Off {
					t.Errorf("after writing is allowed again: %.20q, %+v", got, c.Stats())
				}
			})
		})
	}
	t.Run("from the start", func(t *testing.T) {
		var log bytes.Buffer
		dir := filepath.Join(t.TempDir(), "file", "cache")
		check(t, os.WriteFile(filepath.Dir(dir), nil, 0o666))
		c, err := pagecache.Open(pagecache.Config{Dir: dir, Size: pagecache.MinSize, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		check(t, err)
		defer c.Close()
		c.Keep(p, body)
		if _, ok := c.Meta("f", 1); ok || read(t, c, p, 0, -1) != "none" || !c.Stats().Off || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("got %+v and %s", c.Stats(), log.String())
		}
	})
	t.Run("emptied by hand", func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, dir, pagecache.MinSize)
		c.Keep(p, body)
		for _, path := range []string{"pages", "tmp"} {
			check(t, os.RemoveAll(filepath.Join(dir, path)))
		}
		if got := read(t, c, p, 0, -1); got != "none" {
			t.Errorf("got %.20q", got)
		}
		c.Keep(p, body)
		if got := read(t, c, p, 0, -1); got != string(body) || c.Stats().Errors != 0 {
			t.Errorf("kept again: %.20q, %+v", got, c.Stats())
		}
	})
}

func TestUnknownFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "pages"), 0o777))
	for _, name := range []string{"x", "f@1@" + strings.Repeat("0", 64), "f@000000000001@00", "..@000000000001@" + strings.Repeat("0", 64)} {
		check(t, os.WriteFile(filepath.Join(dir, "pages", name), nil, 0o666))
	}
	if c := open(t, dir, pagecache.MinSize); c.Stats().Pages != 0 || len(files(t, dir)) > 0 {
		t.Errorf("left: %q", files(t, dir))
	}
}

func TestConfig(t *testing.T) {
	if _, err := pagecache.Open(pagecache.Config{Dir: t.TempDir(), Size: pagecache.MinSize - 1}); err == nil {
		t.Error("a size below the minimum is accepted")
	}
}
