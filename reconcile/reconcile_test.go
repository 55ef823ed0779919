package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
)

// injections holds functions that change rows of the copy, and return the lines that a comparison must find.
var injections = map[string]func(w *world, keys []string) []string{
	"changed": func(w *world, keys []string) (want []string) {
		for _, key := range keys {
			w.sql(`UPDATE zones SET body = '{"n":"by hand"}' WHERE key = ?1`, key)
			want = append(want, "* "+key)
		}
		return want
	},
	"missing": func(w *world, keys []string) (want []string) {
		for _, key := range keys {
			w.sql("DELETE FROM zones WHERE key = ?1", key)
			want = append(want, "+ "+key)
		}
		return want
	},
	"extra": func(w *world, keys []string) (want []string) {
		for _, key := range keys {
			w.sql(`INSERT INTO zones SELECT key || '/x', content_type, last_modified, content_id, headers, body FROM zones WHERE key = ?1`, key)
			want = append(want, "- "+key+"/x")
		}
		return want
	},
	"swapped": func(w *world, keys []string) (want []string) {
		for i := 0; i+1 < len(keys); i += 2 {
			w.sql("UPDATE zones SET key = 'tmp' WHERE key = ?1", keys[i])
			w.sql("UPDATE zones SET key = ?1 WHERE key = ?2", keys[i], keys[i+1])
			w.sql("UPDATE zones SET key = ?1 WHERE key = 'tmp'", keys[i+1])
			want = append(want, "* "+keys[i], "* "+keys[i+1])
		}
		return want
	},
	"last": func(w *world, keys []string) (want []string) { // beyond the greatest key, and before the least
		for i := range keys {
			key := fmt.Sprintf("~%06d", i)
			w.sql(`INSERT INTO zones VALUES (?1, 'text/plain', '', '', '{}', 'x')`, key)
			w.sql(`INSERT INTO zones VALUES (?1, 'text/plain', '', '', '{}', 'x')`, "!"+key)
			want = append(want, "- "+key, "- !"+key)
		}
		return want
	},
}

// TestFindsAndRepairs: all differences of each kind are found, and no others; few of the leaves are
// read; and a repair makes the copy equal.
func TestFindsAndRepairs(t *testing.T) {
	const keys = 5_000
	for name, inject := range injections {
		for _, n := range []int{0, 2, 100} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.publish(keys)
				w.consume()
				d, read := w.digest()
				var chosen []string
				for i := range n {
					chosen = append(chosen, key(i*(keys/max(n, 1))))
				}
				want := inject(w, chosen)
				slices.SortFunc(want, func(a, b string) int { return slices.Compare([]byte(a[2:]), []byte(b[2:])) })

				c := w.config(d)
				got := lines(&c)
				report, err := w.run(c, false)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(*got, want) {
					t.Errorf("found %d differences, want %d: %s", len(*got), len(want), cmp.Diff(want, *got))
				}
				if report.Differences() != int64(len(want)) || report.Equal+report.Changed+report.Missing != keys {
					t.Errorf("report is %+v", report)
				}
				if most := 1 + 2*n + 2; read.reads > most || n == 0 && read.reads > 0 {
					t.Errorf("%d nodes and leaves were read for %d differences, want at most %d", read.reads, len(want), most)
				}
				report, err = w.run(c, true)
				if err != nil {
					t.Fatal(err)
				}
				if report.Remaining() != 0 {
					t.Errorf("%d differences remain: %+v", report.Remaining(), report.Repair)
				}
				w.check()
			})
		}
	}
}

// TestExtraCut: an extra key between two leaves is found even if a leaf would begin at this key and both
// leaves are unchanged.
func TestExtraCut(t *testing.T) {
	w := newWorld(t)
	w.publish(5000)
	w.consume()
	d, _ := w.digest()
	leaves, err := d.Leaves(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	of := digest.RangeOf(leaves, 1, d.NodeRange(0))
	entries, err := d.Entries(t.Context(), leaves[1], of)
	if err != nil {
		t.Fatal(err)
	}
	last, extra := entries[len(entries)-1].Key, ""
	for i := 0; extra == ""; i++ {
		s := digest.NewSummary(of.From)
		for _, e := range entries {
			s.Add(e.Key, e.Sum)
		}
		key := fmt.Sprintf("%s/%d", last, i)
		if s.Add(key, digest.Sum{}); len(s.Leaves()) == 2 {
			extra = key
		}
	}
	w.sql("INSERT INTO zones VALUES (?1, 'text/plain', '', '', '{}', 'x')", extra)
	c := w.config(d)
	got := lines(&c)
	if _, err := w.run(c, false); err != nil || !slices.Equal(*got, []string{"- " + extra}) {
		t.Errorf("found %q, %v, want %q", *got, err, extra)
	}
}

// A shared table has several consumers.
type shared struct{ reconcile.Contents }

func (shared) About() sink.About { return sink.About{Ordered: true, Whole: true, Shared: true} }

// TestShared: the keys of other consumers are not reported as extra.
func TestShared(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.consume()
	d, _ := w.digest()
	c := w.config(d)
	open := c.Open
	c.Open = func(ctx context.Context) (reconcile.Contents, error) {
		contents, err := open(ctx)
		return shared{contents}, err
	}
	if _, err := w.run(c, false); !errors.Is(err, reconcile.ErrShared) {
		t.Errorf("%v, want ErrShared", err)
	}
	c.Prefix = "key/"
	if report, err := w.run(c, false); err != nil || report.Equal != 10 {
		t.Errorf("%v, %+v", err, report)
	}
}
