package restore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// rows returns the sums of the rows in a table by their keys.
func (h *history) rows(file string) map[string]string {
	h.t.Helper()
	contents, err := sqlite.OpenContents(h.t.Context(), spec(file))
	if err != nil {
		h.t.Fatal(err)
	}
	defer contents.Close()
	rows := map[string]string{}
	for row, err := range contents.Rows(h.t.Context(), "", "") {
		if err != nil {
			h.t.Fatal(err)
		}
		rows[row.Key] = fmt.Sprint(row.Sum)
	}
	return rows
}

// sums returns the sums of a state.
func sums(state map[string]string) map[string]string {
	all := map[string]string{}
	for key, body := range state {
		var s digest.Summer
		s.Begin(key, "text/plain")
		_, _ = s.Write([]byte(body))
		all[key] = fmt.Sprint(s.Sum())
	}
	return all
}

var errKilled = errors.New("killed")

// A mortal is a sink that is killed after a number of steps. What is applied reaches its target at once,
// before the commit.
type mortal struct {
	consumer.Sink
	left    int
	applied *bool
}

func (m *mortal) Empty(context.Context) (bool, error) { return !*m.applied, m.step() }

func (m *mortal) step() error {
	if m.left--; m.left < 0 {
		return errKilled
	}
	return nil
}

func (m *mortal) Position(ctx context.Context) (feed.Position, error) {
	if err := m.step(); err != nil {
		return feed.Position{}, err
	}
	return m.Sink.Position(ctx)
}

func (m *mortal) Begin(ctx context.Context) (consumer.Batch, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	batch, err := m.Sink.Begin(ctx)
	return &mortalBatch{batch, m}, err
}

type mortalBatch struct {
	consumer.Batch
	m *mortal
}

func (b *mortalBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if err := b.m.step(); err != nil {
		return err
	}
	*b.m.applied = true
	return b.Batch.Apply(ctx, e)
}

// Commit is killed before it commits, or afterwards, before the caller learns of it.
func (b *mortalBatch) Commit(ctx context.Context, at feed.Position) error {
	if err := b.m.step(); err != nil {
		return err
	}
	return errors.Join(b.Batch.Commit(ctx, at), b.m.step())
}

// TestKilled kills a restore between any two steps, and runs it again.
func TestKilled(t *testing.T) {
	h := newHistory(t)
	h.random(rand.New(rand.NewPCG(5, 6)), 5, 2)
	for _, at := range []consumer.Until{consumer.UntilTime(epoch.Add(time.Second)), consumer.UntilTime(epoch.Add(3 * time.Second))} {
		file, done := "", false
		for steps := 0; !done; steps++ {
			file = filepath.Join(t.TempDir(), "things.db")
			applied := false
			for run := 0; ; run++ {
				to := h.open(file)
				sink := &mortal{to, steps, &applied}
				if run > 0 {
					sink.left = 1 << 30
				}
				c := h.config(at, sink)
				c.BatchEntities = 2
				_, err := restore.Run(t.Context(), c)
				if err := to.Close(); err != nil {
					t.Fatal(err)
				}
				if err == nil {
					done = run == 0
					break
				}
				if run > 0 || !errors.Is(err, errKilled) {
					t.Fatalf("killed after %d steps: %v", steps, err)
				}
			}
			h.expect(file, at, h.at[at.Time()])
		}
	}
}

// TestCheckFinds: differences of each kind are found, and none is invented.
func TestCheckFinds(t *testing.T) {
	h := newHistory(t)
	h.random(rand.New(rand.NewPCG(7, 8)), 12, 5)
	at := consumer.UntilTime(epoch.Add(9 * time.Second))
	file := filepath.Join(t.TempDir(), "things.db")
	to := h.open(file)
	if _, err := restore.Run(t.Context(), h.config(at, to)); err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	want := map[string]string{"aaa": "extra", "zzz": "extra"}
	batch, err := to.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for key := range h.rows(file) {
		e := &feed.Entity{Operation: feed.Put, ContentID: "<changed>", ContentLocation: feed.EncodeKey(key), ContentType: "text/plain", Body: []byte("changed")}
		kind := "different"
		if n%2 == 0 {
			e.Operation, kind = feed.Delete, "missing"
		}
		if n++; n > 4 {
			break
		}
		want[key] = kind
		if err := batch.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"aaa", "zzz"} {
		if err := batch.Apply(t.Context(), &feed.Entity{Operation: feed.Put, ContentLocation: key, ContentType: "text/plain"}); err != nil {
			t.Fatal(err)
		}
	}
	position, err := to.Position(t.Context())
	if err := errors.Join(err, batch.Commit(t.Context(), position)); err != nil {
		t.Fatal(err)
	}
	checked, err := restore.Check(t.Context(), h.config(at, nil), target(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range checked.Differences {
		if want[d.Key] != d.Kind {
			t.Errorf("%s is %q, want %q", d.Key, d.Kind, want[d.Key])
		}
		delete(want, d.Key)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
	all := checked.Count()
	// Without sums, the Content-IDs are compared.
	checked, err = restore.Check(t.Context(), h.config(at, nil), restore.Target{Open: func(ctx context.Context) (restore.Contents, error) {
		c, err := sqlite.OpenContents(ctx, spec(file))
		return sumless{c}, err
	}})
	if err != nil || checked.Count() != all || checked.KeysOnly != 0 {
		t.Errorf("without sums: %+v, %v", checked, err)
	}
}

// TestCheckUnordered: rows in no order are not compared.
func TestCheckUnordered(t *testing.T) {
	h := newHistory(t)
	h.random(rand.New(rand.NewPCG(9, 10)), 1)
	file := filepath.Join(t.TempDir(), "things.db")
	to := h.open(file)
	defer to.Close()
	at := consumer.UntilTime(epoch)
	if _, err := restore.Run(t.Context(), h.config(at, to)); err != nil {
		t.Fatal(err)
	}
	_, err := restore.Check(t.Context(), h.config(at, nil), restore.Target{Open: func(ctx context.Context) (restore.Contents, error) {
		c, err := sqlite.OpenContents(ctx, spec(file))
		return unordered{c}, err
	}})
	if !errors.Is(err, restore.ErrUnreadable) {
		t.Errorf("error %v", err)
	}
}

// TestCheckFindsLeaves: a leaf revision replaces its ancestors, and only those.
func TestCheckFindsLeaves(t *testing.T) {
	h := newHistory(t)
	doc := func(rev, revs string) string {
		return fmt.Sprintf(`{"_id":"a","_rev":%q,"_revisions":{"start":%c,"ids":[%s]}}`, rev, rev[0], revs)
	}
	bodies := []string{doc("1-x", `"x"`), doc("2-y", `"y","x"`), doc("2-z", `"z","x"`)}
	var leaves []*restore.Leaf
	for _, body := range bodies {
		e := &feed.Entity{Operation: feed.Put, ContentLocation: "a", ContentType: "application/json", Body: []byte(body)}
		if _, err := h.pages.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		leaf, err := restore.ReadLeaf("application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leaf)
	}
	for name, test := range map[string]struct {
		has  leafList
		want []restore.Difference
	}{
		"equal":     {leafList{leaves[2], leaves[1]}, []restore.Difference{}},
		"missing":   {leafList{leaves[1]}, []restore.Difference{{Key: "a 2-z", Kind: "missing"}}},
		"extra":     {leaves, []restore.Difference{{Key: "a 1-x", Kind: "extra"}}},
		"different": {leafList{leaves[1], {ID: "a", Rev: "2-z", Sum: "other"}}, []restore.Difference{{Key: "a 2-z", Kind: "different"}}},
	} {
		checked, err := restore.Check(t.Context(), h.config(consumer.UntilTime(epoch), nil), restore.Target{Documents: test.has})
		if err != nil || checked.Keys != 2 {
			t.Fatalf("%s: %+v, %v", name, checked, err)
		}
		if diff := cmp.Diff(test.want, checked.Differences); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A leafList is a database with these leaf revisions.
type leafList []*restore.Leaf

func (l leafList) Leaves(_ context.Context, use func(*restore.Leaf) error) (err error) {
	for _, leaf := range l {
		err = errors.Join(err, use(leaf))
	}
	return err
}

// unordered hides that the rows are in order.
type unordered struct{ restore.Contents }

func (unordered) About() sink.About { return sink.About{} }

// sumless hides the sums of the rows.
type sumless struct{ restore.Contents }

func (s sumless) Rows(ctx context.Context, from, to string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		for row, err := range s.Contents.Rows(ctx, from, to) {
			if !yield(sink.Row{Key: row.Key, ContentID: row.ContentID}, err) {
				return
			}
		}
	}
}
