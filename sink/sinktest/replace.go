package sinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

const (
	replacedPage = 3 // entities of the snapshot per batch
	replaceIndex = "https://example.com/snapshots/a/2"
)

// replaceSnapshot returns the entities of a snapshot: new states for every third key of the sink and for
// keys that the sink does not have.
func replaceSnapshot() (entities []*feed.Entity) {
	for n := range 12 {
		key := fmt.Sprintf("new/%d", n)
		if n%2 == 0 {
			key = fmt.Sprintf("thing/%d", 3*n)
		}
		e := put(1000+n, key, document{key: key, rev: n}.json())
		e.Operation = ""
		entities = append(entities, e)
	}
	return entities
}

// during returns the position after n entities of the snapshot.
func during(n int) feed.Position {
	return feed.Position{Snapshot: &feed.SnapshotPosition{Index: replaceIndex, Entities: n, Replaces: true}}
}

// replaceWith replaces the data of a sink with the snapshot in small batches. It continues at the sink's
// position.
func replaceWith(ctx context.Context, k consumer.Sink, _ int) error {
	position, err := k.Position(ctx)
	if err != nil {
		return err
	}
	n, begins := 0, true
	switch {
	case position.Snapshot != nil:
		n, begins = position.Snapshot.Entities, false
	case position.ContentID == contentID(2000):
		return nil // it is complete
	}
	for all := replaceSnapshot(); ; begins = false {
		b, err := k.(consumer.Replacer).BeginReplace(ctx, begins)
		if err != nil {
			return err
		}
		if n >= len(all) {
			if err := b.RemoveOthers(ctx); err != nil {
				return errors.Join(err, b.Rollback(ctx))
			}
			return b.Commit(ctx, at(2000))
		}
		for range min(replacedPage, len(all)-n) {
			if err := b.Apply(ctx, all[n]); err != nil {
				return errors.Join(err, b.Rollback(ctx))
			}
			n++
		}
		if err := b.Commit(ctx, during(n)); err != nil {
			return err
		}
	}
}

// replacer opens a sink with entities in a directory, and skips the test if the data of the sink cannot
// be replaced.
func (s suite) replacer(t *testing.T, dir string) consumer.Replacer {
	t.Helper()
	k, ok := s.open(t, dir).(consumer.Replacer)
	if !ok {
		t.Skip("a snapshot cannot replace the data of the sink")
	}
	b := begin(t, k)
	for n := range 40 {
		key := fmt.Sprintf("thing/%d", n)
		apply(t, b, put(n+1, key, document{key: key}.json()))
	}
	commit(t, b, at(40))
	return k
}

func (s suite) checkReplaced(t *testing.T, dir string) {
	t.Helper()
	var want []Record
	for _, e := range replaceSnapshot() {
		want = append(want, record(e, e.Body))
	}
	s.check(t, dir, want...)
}

// replace replaces the data with a snapshot.
func (s suite) replace(t *testing.T) {
	dir := t.TempDir()
	k := s.replacer(t, dir)
	must(t, replaceWith(t.Context(), k, 0))
	closeSink(t, k)
	s.checkReplaced(t, dir)
}

// replaceAgain begins a replacement, and then another one: keys that only the first snapshot had are
// removed, and batches that are rolled back leave no notes.
func (s suite) replaceAgain(t *testing.T) {
	dir := t.TempDir()
	k := s.replacer(t, dir)
	other := put(1, "other", document{key: "other"}.json())
	begin := func(begins bool) consumer.Replacement {
		t.Helper()
		b, err := k.BeginReplace(t.Context(), begins)
		must(t, err)
		return b
	}
	b := begin(false)
	if err := b.RemoveOthers(t.Context()); !errors.Is(err, consumer.ErrNoReplacement) {
		t.Fatalf("a replacement that was not begun: %v", err)
	}
	rollback(t, b)
	b = begin(true)
	apply(t, b, other)
	commit(t, b, during(1))
	b = begin(true)
	apply(t, b, replaceSnapshot()[:5]...)
	commit(t, b, during(5))
	closeSink(t, k)
	k, _ = s.open(t, dir).(consumer.Replacer)
	b = begin(false)
	apply(t, b, other)
	rollback(t, b)
	b = begin(false)
	apply(t, b, replaceSnapshot()[5:]...)
	must(t, b.RemoveOthers(t.Context()))
	rollback(t, b)
	b = begin(false)
	apply(t, b, replaceSnapshot()[5:]...)
	must(t, b.RemoveOthers(t.Context()))
	commit(t, b, at(2000))
	if b.Removed() < 2 {
		t.Errorf("%d keys were removed", b.Removed())
	}
	b = begin(false) // the notes of the replacement are gone
	if err := b.RemoveOthers(t.Context()); !errors.Is(err, consumer.ErrNoReplacement) {
		t.Errorf("a replacement that has ended: %v", err)
	}
	rollback(t, b)
	closeSink(t, k)
	s.checkReplaced(t, dir)
}

// replaceFaults makes each disk operation of a replacement fail.
func (s suite) replaceFaults(t *testing.T) {
	if s.OpenFaulty == nil {
		t.Skip("the sink has no steps to fail")
	}
	first, next := s.stride()
	for step, failed := first, true; failed; step += next {
		failed = false
		dir, steps := t.TempDir(), 0
		closeSink(t, s.replacer(t, dir))
		k, err := s.OpenFaulty(t.Context(), dir, func() error {
			if steps++; steps == step {
				failed = true
				return errFault
			}
			return nil
		})
		if err == nil {
			if err = replaceWith(t.Context(), k, 0); err != nil {
				if _, broken := k.Position(t.Context()); broken == nil {
					err = replaceWith(t.Context(), k, 0)
				}
			}
			k.Close()
		}
		if err != nil && !errors.Is(err, errFault) {
			t.Fatalf("step %d: %v", step, err)
		}
		k = s.open(t, dir)
		must(t, replaceWith(t.Context(), k, 0))
		closeSink(t, k)
		s.checkReplaced(t, dir)
	}
}

// killReplace kills processes that replace the data of a sink: before each step, if the sink has steps,
// and at random.
func (s suite) killReplace(t *testing.T) {
	if s.child(t, replaceWith) {
		return
	}
	finish := func(dir string) {
		t.Helper()
		k := s.open(t, dir)
		must(t, replaceWith(t.Context(), k, 0))
		closeSink(t, k)
		s.checkReplaced(t, dir)
	}
	first, next := s.stride()
	for step, killed := first, s.OpenFaulty != nil; killed; step += next {
		dir := t.TempDir()
		closeSink(t, s.replacer(t, dir))
		killed = runChild(t, dir, 0, step, 0)
		finish(dir)
	}
	dir := t.TempDir()
	closeSink(t, s.replacer(t, dir))
	for range max(1, s.kills()/4) {
		if !runChild(t, dir, 0, 0, 1+rand.IntN(20_000)) {
			break // it is complete
		}
	}
	finish(dir)
}
