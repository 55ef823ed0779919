package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

// newStore returns a store with a feed of n closed pages and an open one, with two entities each.
func newStore(t *testing.T, n int) *memory.Store {
	t.Helper()
	store := memory.New()
	now := time.Date(2023, 11, 27, 3, 10, 0, 500e6, time.UTC)
	f, err := producer.Open(t.Context(), store, "zones", producer.Config{
		MaxPageEntities: 2,
		Now:             func() time.Time { now = now.Add(700 * time.Millisecond); return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2*n + 1 {
		e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentID: fmt.Sprint(i), Body: []byte("hello")}
		if i == 2 {
			e.Body = bytes.Repeat([]byte("hello\n"), 20_000) // larger than bodies that are held in memory
		}
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return store
}

func rewrite(t *testing.T, store storage.Store, n int64, change func(p *chain.Page, body []byte) []byte) {
	t.Helper()
	o, err := store.Get(t.Context(), layout.FeedPage("zones", n), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	p, err := chain.Decode("zones", n, o.Info)
	if err != nil {
		t.Fatal(err)
	}
	body = change(p, body)
	meta, err := p.Meta()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Replace(t.Context(), o.Key, o.Version, meta, storage.Bytes(body)); err != nil {
		t.Fatal(err)
	}
}

func TestCleanStore(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]func(store storage.Store){
		"as it is": func(storage.Store) {},
		"pruned": func(store storage.Store) {
			if _, err := chain.RaiseFloor(ctx, store, "zones", 2); err != nil {
				t.Fatal(err)
			}
		},
		"pruned and deleted": func(store storage.Store) {
			if _, err := chain.RaiseFloor(ctx, store, "zones", 3); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(store.Delete(ctx, layout.FeedPage("zones", 1)), store.Delete(ctx, layout.FeedPage("zones", 2))); err != nil {
				t.Fatal(err)
			}
		},
		"orphans": func(store storage.Store) {
			for _, n := range []int64{4, 6, 3 + chain.Ahead} {
				if _, err := store.Create(ctx, layout.FeedPage("zones", n), storage.Meta{}, storage.Bytes([]byte("x"))); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, 2)
			change(store)
			report, err := verify.Store(t.Context(), store, "zones", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Kind != "store" || report.Pages == 0 || report.Entities == 0 || report.First.IsZero() {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// TestStoreRules damages a store, and compares the violations that are found in the store itself.
// Which violations are found in the server's responses is not compared.
func TestStoreRules(t *testing.T) {
	ctx := context.Background()
	meta := func(n int64, change func(p *chain.Page)) func(*testing.T, storage.Store) {
		return func(t *testing.T, store storage.Store) {
			rewrite(t, store, n, func(p *chain.Page, body []byte) []byte { change(p); return body })
		}
	}
	body := func(n int64, change func(body []byte) []byte) func(*testing.T, storage.Store) {
		return func(t *testing.T, store storage.Store) {
			rewrite(t, store, n, func(_ *chain.Page, body []byte) []byte { return change(body) })
		}
	}
	object := func(n int64, change func(m *storage.Meta)) func(*testing.T, storage.Store) {
		return func(t *testing.T, store storage.Store) {
			o, err := store.Get(ctx, layout.FeedPage("zones", n), 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(o.Body)
			change(&o.Meta)
			if _, replaceErr := store.Replace(ctx, o.Key, o.Version, o.Meta, storage.Bytes(body)); errors.Join(err, replaceErr) != nil {
				t.Fatal(err, replaceErr)
			}
		}
	}
	member := func(old, now string) func(m *storage.Meta) {
		return func(m *storage.Meta) {
			end := bytes.LastIndex(m.Data, []byte(`,"crc32c"`))
			m.Data = selfcheck.Add(bytes.Replace(append(m.Data[:end:end], '}'), []byte(old), []byte(now), 1))
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, storage.Store)
		want   []string // rule and page
	}{
		"a byte of a body": {
			body(2, func(b []byte) []byte { return bytes.Replace(b, []byte("hello"), []byte("hallo"), 1) }),
			[]string{"body-digest 2"},
		},
		"body is cut": {
			body(2, func(b []byte) []byte { return b[:len(b)-30] }),
			[]string{"body-digest 2", "page-format 2"},
		},
		"bytes after the end": {
			body(2, func(b []byte) []byte { return append(b, "more"...) }),
			[]string{"body-digest 2", "page-format 2"},
		},
		"number of entities, newest page":    {meta(21, func(p *chain.Page) { p.Entities++ }), []string{"metadata 21"}},
		"number of entities, older page":     {meta(3, func(p *chain.Page) { p.Entities++ }), []string{"chain 4", "metadata 3"}},
		"times later than those of the body": {meta(21, func(p *chain.Page) { p.First, p.Last = p.First.Add(time.Hour), p.Last.Add(time.Hour) }), []string{"metadata 21", "metadata 21"}},
		"last time":                          {meta(21, func(p *chain.Page) { p.Last = p.Last.Add(time.Second) }), []string{"metadata 21"}},
		"last Content-ID":                    {meta(3, func(p *chain.Page) { p.LastContentID = "x" }), []string{"metadata 3"}},
		"no previous page":                   {meta(2, func(p *chain.Page) { p.Prev = "" }), []string{"chain 2", "chain 3"}},
		"wrong previous page": {meta(2, func(p *chain.Page) { p.Prev = strings.Repeat("0", 64) }),
			[]string{"chain 2", "chain 3"}},
		"first page has a previous page": {meta(1, func(p *chain.Page) { p.Prev = strings.Repeat("0", 64) }), []string{"chain 1", "chain 2"}},
		"open page in the middle":        {meta(2, func(p *chain.Page) { p.Closed = false }), []string{"chain 2", "page-format 2"}},
		"times overlap": {meta(21, func(p *chain.Page) { p.First, p.Last = p.First.Add(-time.Hour), p.Last.Add(-time.Hour) }),
			[]string{"metadata 21", "metadata 21", "metadata 21"}},
		"metadata is another page's": {
			func(t *testing.T, store storage.Store) {
				o, err := store.Stat(ctx, layout.FeedPage("zones", 2))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := store.Replace(ctx, o.Key, o.Version, storage.Meta{Data: []byte("{}")}, storage.Bytes([]byte("x"))); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"metadata 2"},
		},
		"unknown member":               {object(2, member(`"closed"`, `"more":1,"closed"`)), []string{"metadata 2"}},
		"name of a member is damaged":  {object(2, member(`"settled"`, `"sattled"`)), []string{"metadata 2"}},
		"name of a member in capitals": {object(2, member(`"closed"`, `"CLOSED"`)), []string{"metadata 2"}},
		"Content-Type, closed page":    {object(2, func(m *storage.Meta) { m.ContentType = "text/plain" }), []string{"metadata 2"}},
		"Content-Type, open page":      {object(21, func(m *storage.Meta) { m.ContentType = page.ContentType("x") }), []string{"metadata 21"}},
		"stray object": {
			func(t *testing.T, store storage.Store) {
				if _, err := store.Create(ctx, layout.FeedPages("zones")+"notes.txt", storage.Meta{}, storage.Bytes()); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"stray-object 0"},
		},
		"page far away": {
			func(t *testing.T, store storage.Store) {
				if _, err := store.Create(ctx, layout.FeedPage("zones", 20+chain.Ahead+2), storage.Meta{}, storage.Bytes()); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"gap 0"},
		},
		"page missing": {
			func(t *testing.T, store storage.Store) {
				if err := store.Delete(ctx, layout.FeedPage("zones", 2)); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"gap 0"},
		},
		"pages missing": {
			func(t *testing.T, store storage.Store) {
				if err := errors.Join(store.Delete(ctx, layout.FeedPage("zones", 2)), store.Delete(ctx, layout.FeedPage("zones", 3))); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"gap 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, 20)
			c.change(t, store)
			report, err := verify.Store(t.Context(), store, "zones", "")
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, v := range report.Violations {
				if strings.HasPrefix(v.URL, "feeds/") {
					got = append(got, fmt.Sprintf("%s %d", v.Rule, v.Page))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q\n%v", got, c.want, report.Err())
			}
		})
	}
}

func TestStoreErrors(t *testing.T) {
	if _, err := verify.Store(t.Context(), memory.New(), "zones", ""); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("no feed: %v", err)
	}
	if _, err := verify.Store(t.Context(), memory.New(), "../zones", ""); !errors.Is(err, layout.ErrName) {
		t.Errorf("bad name: %v", err)
	}
}
