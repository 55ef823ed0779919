package against_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/producer"
	kintosink "github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/storage/memory"
)

// A source is an [against.Source] with the given items. List calls the hook before each item; the
// hook may change the source.
type source struct {
	items map[string]against.Item
	state int
	hook  func(n int)
	lists int
}

func newSource(items ...against.Item) *source {
	s := &source{items: map[string]against.Item{}}
	for _, i := range items {
		s.items[i.Key] = i
	}
	return s
}

func (s *source) State(context.Context) (string, error) { return fmt.Sprint(s.state), nil }

func (s *source) List(_ context.Context, state string, bodies bool, add func(against.Item) error) error {
	s.lists++
	items := make([]against.Item, 0, len(s.items))
	for _, i := range s.items {
		items = append(items, i)
	}
	slices.SortFunc(items, func(a, b against.Item) int { return cmp.Compare(b.Key, a.Key) })
	for n, i := range items {
		if s.hook != nil {
			s.hook(n)
		}
		if state != fmt.Sprint(s.state) {
			return fmt.Errorf("list: %w", against.ErrChanged)
		}
		if !bodies {
			i.Body = nil
		}
		if err := add(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) IsTarget(context.Context) (bool, error) { return false, nil }

func (s *source) Covers(key string) bool { return !strings.Contains(key, "/") }

func item(key, version, body string) against.Item {
	return against.Item{Key: key, Version: version, Body: []byte(body), Copy: kintosink.CopyOf(key, []byte(body))}
}

func put(i against.Item) *feed.Entity {
	return &feed.Entity{
		Operation: feed.Put, ContentType: "application/json", ContentLocation: feed.EncodeKey(i.Key), Body: i.Body,
		Header: []feed.Field{{Name: "ETag", Value: i.Version}},
	}
}

func remove(key string) *feed.Entity {
	return &feed.Entity{Operation: feed.Delete, ContentType: "text/plain", ContentLocation: feed.EncodeKey(key)}
}

// A world is a feed, with the configuration for comparing it.
type world struct {
	t      *testing.T
	feed   *producer.Feed
	config against.Config
}

func newWorld(t *testing.T, entities ...*feed.Entity) *world {
	store := memory.New()
	f, err := producer.Open(t.Context(), store, "things", producer.Config{MaxPageEntities: 10})
	if err != nil {
		t.Fatal(err)
	}
	pages := fromstore.New(store, fromstore.Config{})
	t.Cleanup(func() {
		pages.Close()
		if err := errors.Join(f.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	client, err := consumer.New(consumer.Config{Source: pages})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, feed: f}
	w.config = against.Config{Client: client, URL: pages.Feed("things"), Log: slog.New(slog.DiscardHandler)}
	w.publish(entities...)
	return w
}

func (w *world) publish(entities ...*feed.Entity) {
	w.t.Helper()
	if _, err := w.feed.Publish(w.t.Context(), entities...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) compare(s against.Source, deep bool) (*against.Report, error) {
	w.config.Source, w.config.Deep = s, deep
	dir := w.t.TempDir()
	w.t.Setenv("TMPDIR", dir)
	report, err := against.Compare(w.t.Context(), w.config)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		w.t.Errorf("left behind: %v", left)
	}
	return report, err
}

// lines returns the differences in a report as strings.
func lines(r *against.Report) (lines []string) {
	for _, d := range r.Differences {
		lines = append(lines, d.String())
	}
	return lines
}

// TestCompare compares feeds with sources that have the same or different items.
func TestCompare(t *testing.T) {
	a, b, c := item("a", `"1"`, `{"n":1}`), item("b", `"2"`, `{"x":[1.10,"é"],"y":null}`), item("c", `"3"`, `{}`)
	large := item("l", `"4"`, `{"t":"`+strings.Repeat("x", 2<<20)+`"}`)
	merge := put(item("a", "", `{"n":2}`))
	merge.Operation, merge.ContentType, merge.Header = feed.Patch, "application/merge-patch+json", nil
	for _, test := range []struct {
		name   string
		feed   []*feed.Entity
		source []against.Item
		deep   bool
		want   string // the differences, one on each line
	}{
		{"equal", []*feed.Entity{put(a), put(b)}, []against.Item{b, a}, true, ""},
		{"last version", []*feed.Entity{put(item("a", `"0"`, "{}")), put(b), put(a)}, []against.Item{a, b}, true, ""},
		{"deleted", []*feed.Entity{put(a), put(b), remove("a")}, []against.Item{b}, true, ""},
		{"nothing", []*feed.Entity{put(a), remove("a")}, nil, true, ""},
		{"again after a deletion", []*feed.Entity{put(a), remove("a"), put(item("a", `"9"`, "{}"))}, []against.Item{item("a", `"9"`, "{}")}, true, ""},
		{"missing", []*feed.Entity{put(b)}, []against.Item{a, b, c}, false,
			`missing: the feed does not have "a", which the source has in version "1"` + "\n" + `missing: the feed does not have "c", which the source has in version "3"`},
		{"extra", []*feed.Entity{put(a), put(b), put(c)}, []against.Item{b}, false,
			`extra: the feed has "a" in version "1", which the source does not have` + "\n" + `extra: the feed has "c" in version "3", which the source does not have`},
		{"deletion missing", []*feed.Entity{put(a)}, nil, false, `extra: the feed has "a" in version "1", which the source does not have`},
		{"version", []*feed.Entity{put(a)}, []against.Item{item("a", `"5"`, `{"n":1}`)}, true, `version: the feed has "a" in version "1", the source in version "5"`},
		{"other form of the same", []*feed.Entity{put(b)}, []against.Item{item("b", `"2"`, ` { "y" : null, "x" : [ 11e-1, "\u00e9" ] } `)}, true, ""},
		{"body", []*feed.Entity{put(a)}, []against.Item{item("a", `"1"`, `{"n":2}`)}, true, `body: the bodies of "a" in version "1" differ`},
		{"body is not asked for", []*feed.Entity{put(a)}, []against.Item{item("a", `"1"`, `{"n":2}`)}, false, ""},
		{"patched", []*feed.Entity{put(a), merge}, []against.Item{item("a", `"1"`, `{"n":2}`)}, true, ""},
		{"patched, without bodies", []*feed.Entity{put(a), merge}, []against.Item{a}, false, ""},
		{"large", []*feed.Entity{put(large)}, []against.Item{large}, true, ""},
		{"file of an item", []*feed.Entity{put(a), put(item("a/attachment", "", "x"))}, []against.Item{a}, true, ""},
		{"not ASCII", []*feed.Entity{put(item("é", `"1"`, "{}")), put(item("z", `"2"`, "{}"))}, []against.Item{item("é", `"1"`, ""), item("z", `"2"`, "")}, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.feed...)
			report, err := w.compare(newSource(test.source...), test.deep)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lines(report), "\n"); got != test.want {
				t.Errorf("differences:\n%s\nwant:\n%s", got, test.want)
			}
			if report.Items != int64(len(test.source)) {
				t.Errorf("report says %d items of %d", report.Items, len(test.source))
			}
			if report.Changing {
				t.Error("report says that the source changed")
			}
		})
	}
}

// TestCompareMany: all differences are counted, but only a thousand are listed.
func TestCompareMany(t *testing.T) {
	const n = 25_000
	s := newSource()
	for k := range n {
		s.items[fmt.Sprint(k)] = item(fmt.Sprint(k), `"1"`, "")
	}
	w := newWorld(t, put(s.items["7"]), put(s.items["17"]))
	report, err := w.compare(s, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Differences) != 1000 || report.Count() != n-2 || report.Items != n || report.Keys != 2 {
		t.Errorf("%d listed, %d counted, %d items, %d keys", len(report.Differences), report.Count(), report.Items, report.Keys)
	}
	if s.lists != 1 {
		t.Errorf("a source that did not change was listed %d times", s.lists)
	}
}

// TestCompareChanging: a source that changes is listed again, and the feed read to its new end.
func TestCompareChanging(t *testing.T) {
	a, b := item("a", `"1"`, "{}"), item("b", `"2"`, "{}")
	for _, test := range []struct {
		name   string
		change func(s *source, list, n int) // called before item n of a list
		lists  int
		err    error
	}{
		{"in the list", func(s *source, list, n int) {
			if list <= 3 && n == 1 {
				s.state++
			}
		}, 4, nil},
		{"for ever", func(s *source, _, _ int) { s.state++ }, 8, against.ErrChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t, put(a), put(b)), newSource(a, b)
				s.hook = func(n int) { test.change(s, s.lists, n) }
				report, err := w.compare(s, false)
				if !errors.Is(err, test.err) {
					t.Fatal(err)
				}
				if s.lists != test.lists {
					t.Errorf("listed %d times, want %d", s.lists, test.lists)
				}
				if err == nil && report.Count() != 0 {
					t.Errorf("differences: %q", lines(report))
				}
			})
		})
	}
}

// A later is a source whose state can be changed during each call of State, such as the second,
// which comes after the comparison.
type later struct {
	*source
	asked  int
	change func(asked int)
}

func (l *later) State(ctx context.Context) (string, error) {
	l.asked++
	l.change(l.asked)
	return l.source.State(ctx)
}

// TestCompareLater: if the source is no longer in the state that was listed, differences lead to
// another attempt. If it changes in each attempt, the report says so.
func TestCompareLater(t *testing.T) {
	a, b := item("a", `"1"`, "{}"), item("b", `"2"`, "{}")
	t.Run("published meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, s := newWorld(t, put(a), put(b), remove("b")), newSource(a, b)
			l := &later{source: s, change: func(asked int) {
				if asked == 2 { // the feed has had this deletion from the start; now the source has it, too
					delete(s.items, "b")
					s.state++
				}
			}}
			report, err := w.compare(l, false)
			if err != nil || report.Count() != 0 || report.State != "1" || s.lists != 2 {
				t.Errorf("%+v, %v, %d lists", report, err, s.lists)
			}
		})
	})
	t.Run("never at rest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, s := newWorld(t, put(a)), newSource(a, b)
			l := &later{source: s, change: func(int) { s.state++ }}
			report, err := w.compare(l, false)
			if err != nil || report.Count() != 1 || !report.Changing {
				t.Errorf("%+v, %v", report, err)
			}
		})
	})
}

// TestCompareFails: to compare a feed that does not exist is an error; such a feed does not count
// as one without keys.
func TestCompareFails(t *testing.T) {
	w, s := newWorld(t, put(item("a", `"1"`, "{}"))), newSource()
	w.config.URL += "-other"
	if _, err := w.compare(s, false); !errors.Is(err, consumer.ErrNotFound) {
		t.Errorf("feed that does not exist: %v", err)
	}
}
