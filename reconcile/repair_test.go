package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	sinksqlite "github.com/feedctl/feedctl/sink/sqlite"
)

// TestMaxDeletes: beyond the limit, nothing at all is changed.
func TestMaxDeletes(t *testing.T) {
	w := newWorld(t)
	w.publish(4999)
	w.consume()
	d, _ := w.digest()
	w.sql("INSERT INTO zones VALUES ('zzz', 'text/plain', '', '', '{}', 'x')")
	w.sql("UPDATE zones SET body = 'x' WHERE key = ?1", key(7))
	c := w.config(d)
	var asked []int64
	c.MaxDeletes = func(deletes, rows int64) bool { asked = append(asked, deletes, rows); return true }
	report, err := w.run(c, true)
	if !errors.Is(err, reconcile.ErrDeletes) || report == nil || report.Differences() != 2 {
		t.Errorf("%v, want ErrDeletes with a report; got %+v", err, report)
	}
	if !slices.Equal(asked, []int64{1, 5000}) {
		t.Errorf("MaxDeletes was called with %v", asked)
	}
	w.untouched("limit")
	if report, err := w.run(c, false); err != nil || report.Differences() != 2 {
		t.Errorf("%v, %+v", err, report)
	}
}

// A meddler changes the copy before the first change of a repair.
type meddler struct {
	consumer.Sink
	meddle func()
}

func (m *meddler) Begin(ctx context.Context) (consumer.Batch, error) {
	if m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return m.Sink.Begin(ctx)
}

// TestChangedMeanwhile: a change that someone else makes to a row between the comparison and the repair is
// not undone.
func TestChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.publish(2000)
	w.consume()
	d, _ := w.digest()
	for i := range 5 {
		w.sql("UPDATE zones SET body = 'x' WHERE key = ?1", key(i))
		w.sql("DELETE FROM zones WHERE key = ?1", key(10+i))
		w.sql("INSERT INTO zones VALUES (?1, 'text/plain', '', '', '{}', 'x')", "z"+key(i))
	}
	s, err := sinksqlite.Open(t.Context(), w.path, "zones")
	if err != nil {
		t.Fatal(err)
	}
	c := w.config(d)
	got := lines(&c)
	c.Sink = &meddler{s, func() {
		*got = nil
		w.sql("UPDATE zones SET body = 'y' WHERE key = ?1", key(1))
		w.sql("DELETE FROM zones WHERE key = ?1", key(2))
		w.sql("INSERT INTO zones VALUES (?1, 'text/plain', '', '', '{}', 'y')", key(11))
		w.sql("UPDATE zones SET content_id = 'y' WHERE key = ?1", "z"+key(3))
	}}
	report, err := reconcile.Run(t.Context(), c)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(*got)
	want := []string{"! " + key(1), "! " + key(2), "! " + key(11), "! z" + key(3)}
	if !slices.Equal(*got, want) || report.Repair.Changed != 4 || report.Remaining() != 4 {
		t.Errorf("found %q, want %q; %+v", *got, want, report.Repair)
	}
	*got = nil
	c.Sink = nil
	if _, err := reconcile.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if want := []string{"* " + key(1), "+ " + key(2), "* " + key(11), "- z" + key(3)}; !slices.Equal(*got, want) {
		t.Errorf("then found %q, want %q", *got, want)
	}
}

// TestLocked: while a consumer runs, a repair is refused, but a comparison is not.
func TestLocked(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.consume()
	d, _ := w.digest()
	s, err := sinksqlite.Open(t.Context(), w.path, "zones")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := sinksqlite.Open(t.Context(), w.path, "zones"); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if _, err := w.run(w.config(d), false); err != nil {
		t.Error(err)
	}
}

// A plainSink is a sink whose batches do not implement Guard.
type plainSink struct{ consumer.Sink }

func (p plainSink) Begin(ctx context.Context) (consumer.Batch, error) {
	b, err := p.Sink.Begin(ctx)
	return struct{ consumer.Batch }{b}, err
}

// TestUnguarded: a sink that cannot check its rows is not repaired.
func TestUnguarded(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.consume()
	d, _ := w.digest()
	w.sql("DELETE FROM zones WHERE key = ?1", key(1))
	s, err := sinksqlite.Open(t.Context(), w.path, "zones")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := w.config(d)
	c.Sink = plainSink{s}
	if _, err := reconcile.Run(t.Context(), c); !errors.Is(err, reconcile.ErrGuard) {
		t.Errorf("%v, want ErrGuard", err)
	}
}

// TestLarge: a body that is not held in memory is compared and repaired.
func TestLarge(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.send(w.put("large", `"`+strings.Repeat("x", 3<<20)+`"`), w.put("medium", `"`+strings.Repeat("y", 100<<10)+`"`))
	w.consume()
	d, _ := w.digest()
	if report, err := w.run(w.config(d), false); err != nil || report.Differences() != 0 {
		t.Fatal(report, err)
	}
	w.sql("UPDATE zones SET body = zeroblob(3000000) WHERE key = 'large'")
	w.sql("DELETE FROM zones WHERE key = 'medium'")
	report, err := w.run(w.config(d), true)
	if err != nil || report.Repair.Written != 2 || report.Remaining() != 0 {
		t.Errorf("%v, %+v", err, report.Repair)
	}
	w.check()
}

// TestWrongPlace: an entity that does not match the digest is not applied, wherever it is read from.
func TestWrongPlace(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.consume()
	w.bodies[key(3)] = "something else" // the digest says so
	d, _ := w.digest()
	w.sql("DELETE FROM zones WHERE key = ?1", key(3))
	report, err := w.run(w.config(d), true)
	if err != nil || report.Repair.Lost != 1 || report.Repair.Written != 0 || report.Remaining() != 1 {
		t.Errorf("%v, %+v", err, report.Repair)
	}
	_ = feed.Put
}

// A dying sink fails before each step of a repair in turn, as if the process were killed there.
type dyingSink struct {
	consumer.Sink
	left *int
}

var errKilled = errors.New("killed")

func (d dyingSink) step() error {
	if *d.left--; *d.left < 0 {
		return errKilled
	}
	return nil
}

func (d dyingSink) Begin(ctx context.Context) (consumer.Batch, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	b, err := d.Sink.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &dyingBatch{b.(reconcile.Guard), d}, nil
}

type dyingBatch struct {
	reconcile.Guard
	dyingSink dyingSink
}

func (b *dyingBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if err := b.dyingSink.step(); err != nil {
		return err
	}
	return b.Guard.Apply(ctx, e)
}

func (b *dyingBatch) Commit(ctx context.Context, at feed.Position) error {
	if err := b.dyingSink.step(); err != nil {
		return err
	}
	if err := b.Guard.Commit(ctx, at); err != nil {
		return err
	}
	return b.dyingSink.step()
}

// TestKilled: a repair that ends at any step leaves the position as it was, and each row either as it
// was or mended. The next repair completes the work.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(1500)
	w.consume()
	d, _ := w.digest()
	damage := func() {
		w.sql("UPDATE zones SET body = 'x' WHERE key < ?1", key(4))
		w.sql("DELETE FROM zones WHERE key BETWEEN ?1 AND ?2", key(100), key(690))
		w.sql("INSERT OR IGNORE INTO zones VALUES ('z', 'text/plain', '', '', '{}', 'x')")
	}
	damage()
	before, err := w.run(w.config(d), false)
	if err != nil {
		t.Fatal(err)
	}
	for left := 0; ; left += 1 + left/3 {
		damage()
		s, err := sinksqlite.Open(t.Context(), w.path, "zones")
		if err != nil {
			t.Fatal(err)
		}
		c, n := w.config(d), left
		c.Sink = dyingSink{s, &n}
		_, err = reconcile.Run(t.Context(), c)
		if closed := s.Close(); closed != nil {
			t.Fatal(closed)
		}
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		after, failed := w.run(w.config(d), false)
		if failed != nil {
			t.Fatal(failed)
		}
		if after.Position != before.Position || after.Differences() > before.Differences() {
			t.Errorf("killed at step %d: position %+v, was %+v; %+v", left, after.Position, before.Position, after.Counts)
		}
		if report, err := w.run(w.config(d), true); err != nil || report.Remaining() != 0 {
			t.Fatalf("after step %d: %v, %+v", left, err, report)
		}
		w.check()
		if err == nil {
			break
		}
	}
}
