package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/postgres"
)

// testTooLarge applies a key that is too long for an index, and a body that is too large for a
// value.
func testTooLarge(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t"})
	var key strings.Builder
	for range 4000 {
		key.WriteByte(byte('0' + rand.N(64)))
	}
	if err := tryWrite(t.Context(), k, entity(1, key.String(), `1`)); err == nil || !strings.Contains(err.Error(), "a key is too long") {
		t.Errorf("a long key: %v", err)
	}
	if _, err := k.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := entity(2, "large", "")
	e.Stream, e.Size = zeros{}, postgres.MaxBody+1
	var large *sink.TooLargeError
	if err := tryWrite(t.Context(), k, e); !errors.As(err, &large) || large.Key != "large" || large.Size != postgres.MaxBody+1 {
		t.Errorf("a large body: %v", err)
	}
	write(t, k, entity(3, "a", `1`))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// testSpill applies batches that do not fit into memory, including rows that are replaced by later
// ones.
func testSpill(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t"})
	body := `"` + strings.Repeat("x", 1<<19) + `"`
	var entities []*feed.Entity
	for n := range 90 {
		entities = append(entities, entity(n, fmt.Sprint(n%20), body[:len(body)-1-n]+`"`))
	}
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entities {
		if i == 80 { // the patch reads the table while rows are being copied into it
			missing := entity(0, "missing", "{}")
			missing.Operation, missing.ContentType = feed.Patch, patch.Merge
			if err := b.Apply(t.Context(), missing); !errors.Is(err, patch.ErrMissing) {
				t.Fatal(err)
			}
			if err := b.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			break
		}
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	write(t, k, entities...) // not copied ahead, since the previous batch had a patch
	write(t, k, entities...)
	want := map[string]string{}
	for n := 70; n < 90; n++ {
		want[fmt.Sprint(n%20)] = fmt.Sprint(len(body) - n)
	}
	if diff := cmp.Diff(want, w.pairs("SELECT key, length(body::text)::text FROM t")); diff != "" {
		t.Error(diff)
	}
}

func testRefused(t *testing.T, w *world) {
	for _, table := range []string{"", "1", "a b", `a"b`, "a;b", "pg_x", "Feedctl_positions", "s.feedctl_x", "a.b.c", ".t", "t.", strings.Repeat("a", 64), "ü"} {
		if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: table}); !errors.Is(err, sink.ErrSpec) {
			t.Errorf("table %q: %v", table, err)
		}
	}
	for name, c := range map[string]struct{ script, want string }{
		"columns":  {"DROP TABLE t; CREATE TABLE t (key text PRIMARY KEY, body json)", "no column content_type"},
		"rows":     {"DELETE FROM feedctl_positions", "no position"},
		"position": {"UPDATE feedctl_positions SET position = '{'", "read position"},
		"unique":   {"ALTER TABLE t DROP CONSTRAINT t_pkey", "unique index"},
		"types":    {"ALTER TABLE t ALTER content_id TYPE int USING 1", "type integer"},
	} {
		k := w.open(t, postgres.Options{Table: "t"})
		write(t, k, entity(1, "a", `1`))
		k.Close()
		w.exec(c.script)
		if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		w.exec("DROP TABLE t, feedctl_positions")
	}
	if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "none.t"}); err == nil || !strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Errorf("no schema: %v", err)
	}
	opener := postgres.Opener(nil)
	for params, want := range map[string]string{
		"":                   "table is missing",
		"table=t&table=u":    "twice",
		"table=t&strict=yes": "true or false",
	} {
		s, err := sink.ParseSpec("postgres://h/d?" + params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opener(t.Context(), s); !errors.Is(err, sink.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}
