package consumer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// A replaceSink is a rowSink that a snapshot can replace.
type replaceSink struct {
	*rowSink
	seen map[string]bool // the keys noted and committed; nil if there is no replacement
}

type replaceBatch struct {
	*rowBatch
	s       *replaceSink
	seen    map[string]bool
	removed int64
}

func (s *replaceSink) BeginReplace(_ context.Context, begins bool) (Replacement, error) {
	b := &replaceBatch{&rowBatch{s.rowSink, s.committed.clone()}, s, maps.Clone(s.seen), 0}
	if begins {
		b.seen = map[string]bool{}
	}
	return b, s.step("begin")
}

func (b *replaceBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.seen == nil {
		return ErrNoReplacement
	}
	b.seen[e.Key()] = true
	return b.rowBatch.Apply(ctx, e)
}

func (b *replaceBatch) RemoveOthers(context.Context) error {
	if b.seen == nil {
		return ErrNoReplacement
	}
	before := len(b.rows)
	maps.DeleteFunc(b.rows, func(key, _ string) bool { return !b.seen[key] })
	b.removed, b.seen = int64(before-len(b.rows)), nil
	return b.s.step("remove")
}

func (b *replaceBatch) Removed() int64 { return b.removed }

func (b *replaceBatch) Commit(ctx context.Context, at feed.Position) error {
	if (at.Snapshot != nil && at.Snapshot.Replaces) != (b.seen != nil) {
		b.s.t.Errorf("the position %+v does not say whether the replacement continues", at)
	}
	before := len(b.rowBatch.s.positions)
	err := b.rowBatch.Commit(ctx, at)
	if len(b.rowBatch.s.positions) > before { // committed, even if the outcome is reported as unknown
		b.s.seen = b.seen
	}
	return err
}

// gapWorld returns a feed whose first page was pruned, with a snapshot of it; a sink whose position is on the
// first page; and the rows that the sink must have in the end. At first, the sink has a key of the snapshot, a
// key that was deleted in the gap, and the keys of the feed.
func gapWorld(t *testing.T) (*testSnapshot, *replaceSink, map[string]string) {
	s := newSnapshot(newFeed("a0 b1 | c2 d2 | e3"), 3, 2)
	s.floor = 2
	s.feed = &snapshot.FeedPosition{URL: feedURL, LastModified: second(2), ContentID: "c", Page: pageURL + "2"}
	sink := &replaceSink{rowSink: newRowSink(t)}
	sink.at = at("x0", 1).position
	want := map[string]string{}
	for n, body := range s.bodies(0) {
		want["key-"+string(rune('0'+n))] = body
	}
	for _, p := range s.pages {
		for _, e := range p.entities {
			if e.ContentID == "d" || e.ContentID == "e" {
				want[e.Key()] = string(e.Body)
			}
			sink.committed.rows[e.Key()] = "old"
		}
	}
	sink.committed.rows["key-2"], sink.committed.rows["deleted"] = "old", "old"
	return s, sink, want
}

// TestReplace makes each step of a replacement fail, and continues with another policy. The replacement is
// still completed, since the position says that a snapshot replaces the data.
func TestReplace(t *testing.T) {
	steps := 1000
	for n := range steps {
		s, sink, want := gapWorld(t)
		inWorld(t, s, func(t *testing.T, w *world) {
			job := Job{Client: w.newClient(Config{}), Sink: sink, OnGap: GapSnapshot, SnapshotURL: indexURL, BatchEntities: 2}
			count := 0
			sink.before = func(string) error {
				if count++; count == n {
					return io.ErrClosedPipe
				}
				return nil
			}
			stats, err := runJob(t, job)
			if n == 0 && (err != nil || stats.Removed != 6 || stats.Gaps != 1) { // keys a to e, of which the feed brings d and e again, and the key "deleted"
				t.Fatalf("%+v, %v", stats, err)
			}
			sink.before = nil
			if sink.at.Snapshot != nil {
				job.OnGap = GapFail
			}
			if _, err := runJob(t, job); err != nil {
				t.Fatal(err)
			}
			sink.expect(want)
			if sink.seen != nil || sink.at.Snapshot != nil {
				t.Errorf("the replacement has not ended: %v, %+v", sink.seen, sink.at)
			}
			steps = count
		})
		if n > steps {
			if n < 20 {
				t.Errorf("there are %d steps", n)
			}
			return
		}
	}
}

// TestReplaceByAnother: the snapshot is replaced by another snapshot while it is being read. Keys that only
// the first snapshot has are removed.
func TestReplaceByAnother(t *testing.T) {
	s, sink, want := gapWorld(t)
	inWorld(t, s, func(t *testing.T, w *world) {
		job := Job{Client: w.newClient(Config{}), Sink: sink, OnGap: GapSnapshot, SnapshotURL: indexURL, BatchEntities: 2}
		commits := 0
		sink.before = func(step string) error {
			if step == "commit" {
				commits++
			}
			if commits == 2 {
				return io.ErrClosedPipe
			}
			return nil
		}
		if _, err := runJob(t, job); !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
		sink.before, s.id = nil, "id-2"
		delete(want, s.parts[0][0].Key())
		s.parts[0] = s.parts[0][1:]
		if stats, err := runJob(t, job); err != nil || stats.Gaps != 1 {
			t.Fatalf("%+v, %v", stats, err)
		}
		sink.expect(want)
	})
}

// TestNotReplaced: a sink that is not a Replacer keeps keys that were deleted in the gap, and a job that
// starts with a snapshot removes nothing.
func TestNotReplaced(t *testing.T) {
	var log strings.Builder
	s, sink, want := gapWorld(t)
	for key := range sink.committed.rows {
		if _, ok := want[key]; !ok {
			want[key] = "old"
		}
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		job := Job{Client: w.newClient(Config{}), Sink: sink.rowSink, OnGap: GapSnapshot, SnapshotURL: indexURL,
			Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if stats, err := runJob(t, job); err != nil || stats.Removed != 0 {
			t.Fatalf("%+v, %v", stats, err)
		}
		sink.expect(want)
		if !strings.Contains(log.String(), "the sink keeps what was deleted in the gap") {
			t.Error(log.String())
		}
	})
	s, sink, _ = gapWorld(t)
	inWorld(t, s, func(t *testing.T, w *world) {
		sink.at = feed.Position{}
		job := Job{Client: w.newClient(Config{}), Sink: sink, From: FromSnapshot(indexURL), OnGap: GapSnapshot, SnapshotURL: indexURL}
		if stats, err := runJob(t, job); err != nil || stats.Removed != 0 || sink.committed.rows["deleted"] != "old" {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}
