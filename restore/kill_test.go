package restore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

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

// A mortal is a sink that is killed after a number of steps.
type mortal struct {
	consumer.Sink
	left int
}

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
	return b.Batch.Apply(ctx, e)
}

// Commit is killed before it, or after it without the caller being told.
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
			for run := 0; ; run++ {
				to := h.open(file)
				sink := &mortal{to, steps}
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
		e := &feed.Entity{Operation: feed.Put, ContentLocation: feed.EncodeKey(key), ContentType: "text/plain", Body: []byte("changed")}
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
	// Without sums, the Content-IDs count.
	checked, err = restore.Check(t.Context(), h.config(at, nil), restore.Target{Open: func(ctx context.Context) (restore.Contents, error) {
		c, err := sqlite.OpenContents(ctx, spec(file))
		return sumless{c}, err
	}})
	if err != nil || checked.Count() == 0 || checked.KeysOnly != 2 {
		t.Errorf("without sums: %+v, %v", checked, err)
	}
}

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
