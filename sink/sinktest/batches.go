package sinktest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/patch"
)

func checkPosition(t *testing.T, k consumer.Sink, want feed.Position) {
	t.Helper()
	got, err := k.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("position (-want +got):\n%s", diff)
	}
}

func (s suite) commit(t *testing.T) {
	dir := t.TempDir()
	k := s.open(t, dir)
	checkPosition(t, k, feed.Position{})
	one, two := put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`)
	for i, e := range []*feed.Entity{one, two} {
		b := begin(t, k)
		if _, err := k.Begin(t.Context()); err == nil {
			t.Fatal("a second batch was begun while the first was open")
		}
		apply(t, b, e)
		commit(t, b, at(i+1))
		if err := b.Apply(t.Context(), e); err == nil {
			t.Error("an entity was applied after the commit")
		}
		if err := b.Commit(t.Context(), at(9)); err == nil {
			t.Error("a batch was committed twice")
		}
		checkPosition(t, k, at(i+1))
	}
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body), record(two, two.Body))

	k = s.open(t, dir)
	checkPosition(t, k, at(2))
	commit(t, begin(t, k), snapshotPosition()) // no entities
	checkPosition(t, k, snapshotPosition())
	closeSink(t, k)
	k = s.open(t, dir)
	checkPosition(t, k, snapshotPosition())
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body), record(two, two.Body))
}

func (s suite) rollback(t *testing.T) {
	dir := t.TempDir()
	k := s.open(t, dir)
	one := put(1, "a", `{"n":1}`)
	b := begin(t, k)
	apply(t, b, one)
	commit(t, b, at(1))
	large := strings.Repeat("x", 3*sink.MaxInline)
	b = begin(t, k)
	apply(t, b, put(2, "a", `{"n":2}`), put(3, "b", `{}`), entity(4, feed.Put, "c", "text/plain", large), entity(5, feed.Delete, "a", "text/plain", ""))
	rollback(t, b)
	rollback(t, b)
	if err := b.Commit(t.Context(), at(5)); err == nil {
		t.Error("a batch was committed after it was rolled back")
	}
	checkPosition(t, k, at(1))

	// Closing the sink discards an open batch.
	b = begin(t, k)
	apply(t, b, put(2, "a", `{"n":2}`), entity(4, feed.Put, "c", "text/plain", large))
	closeSink(t, k)
	rollback(t, b)
	if err := b.Commit(t.Context(), at(4)); err == nil {
		t.Error("a batch was committed after its sink was closed")
	}
	if _, err := k.Begin(t.Context()); err == nil {
		t.Error("a batch was begun after the sink was closed")
	}
	k = s.open(t, dir)
	checkPosition(t, k, at(1))
	two := put(2, "b", `{"n":2}`)
	b = begin(t, k)
	apply(t, b, two)
	commit(t, b, at(2))
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body), record(two, two.Body))
}

// order tests a batch in which a key occurs several times, and an entity that occurs twice.
func (s suite) order(t *testing.T) {
	entities := []*feed.Entity{
		put(1, "a", `1`), put(2, "b", `2`), put(3, "a", `3`),
		entity(4, feed.Delete, "b", "application/json", ""), put(5, "b", `5`), put(6, "c", `6`),
		entity(7, feed.Delete, "c", "application/json", ""), put(5, "b", `5`),
	}
	dir := s.filled(t, entities...)
	if s.Log {
		var all []Record
		for _, e := range entities {
			all = append(all, record(e, e.Body))
		}
		s.check(t, dir, all...)
		return
	}
	s.check(t, dir, record(entities[2], []byte(`3`)), record(entities[4], []byte(`5`)))
}

func (s suite) delete(t *testing.T) {
	if s.Log {
		t.Skip("a log removes nothing")
	}
	dir := s.filled(t, put(1, "a", `1`), put(2, "b", `2`))
	k := s.open(t, dir)
	b := begin(t, k)
	apply(t, b, entity(3, feed.Delete, "a", "text/plain", "gone"), entity(4, feed.Delete, "never was", "text/plain", ""))
	commit(t, b, at(4))
	closeSink(t, k)
	s.check(t, dir, record(put(2, "b", ""), []byte(`2`)))
}

func (s suite) patch(t *testing.T) {
	if s.Log {
		t.Skip("a log does not apply patches")
	}
	dir := s.filled(t, put(1, "a", `{"z":1.50,"list":[1]}`), put(2, "b", `{"x":1}`))
	k := s.open(t, dir)
	b := begin(t, k)
	apply(t, b,
		entity(3, feed.Patch, "a", patch.Merge, `{"y":"<&>","x":12345678901234567890}`),
		entity(4, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/list/-","value":2}]`),
		put(5, "c", `{"c":1}`),
		entity(6, feed.Patch, "c", patch.Merge, `{"c":null}`))
	commit(t, b, at(6))
	closeSink(t, k)
	a, c := record(put(1, "a", ""), []byte(`{"z":1.50,"list":[1,2],"y":"<&>","x":12345678901234567890}`)), record(put(5, "c", ""), []byte(`{}`))
	a.ContentID, a.LastModified = contentID(4), stamp(4)
	c.ContentID, c.LastModified = contentID(6), stamp(6)
	s.check(t, dir, a, record(put(2, "b", ""), []byte(`{"x":1}`)), c)
}

func (s suite) patchErrors(t *testing.T) {
	if s.Log {
		t.Skip("a log does not apply patches")
	}
	one, text := put(1, "a", `{"z":1}`), entity(2, feed.Put, "text", "text/plain", "no JSON")
	large := entity(3, feed.Put, "large", "application/json", `"`+strings.Repeat("x", patch.MaxSize)+`"`)
	dir := s.filled(t, one, text, large)
	k := s.open(t, dir)
	for _, c := range []struct {
		e    *feed.Entity
		want error
	}{
		{entity(9, feed.Patch, "none", patch.Merge, `{}`), patch.ErrMissing},
		{entity(9, feed.Patch, "a", patch.JSON, `[{"op":"remove","path":"/y"}]`), patch.ErrNoFit},
		{entity(9, feed.Patch, "a", patch.Merge, `{`), patch.ErrInvalid},
		{entity(9, feed.Patch, "a", "text/plain", `{}`), patch.ErrContentType},
		{entity(9, feed.Patch, "text", patch.Merge, `{}`), patch.ErrNoFit},
		{entity(9, feed.Patch, "large", patch.Merge, `{}`), patch.ErrTooLarge},
		{entity(9, feed.Patch, "a", patch.Merge, string(large.Body)), patch.ErrTooLarge},
	} {
		b := begin(t, k)
		apply(t, b, put(4, "a", `{"z":2}`))
		err := b.Apply(t.Context(), c.e)
		var p *patch.Error
		if !errors.Is(err, c.want) || !errors.As(err, &p) || p.Key != c.e.Key() || p.ContentID != contentID(9) {
			t.Errorf("%s of %s: %v, want %v", c.e.ContentType, c.e.Key(), err, c.want)
		}
		if err := b.Commit(t.Context(), at(9)); err == nil {
			t.Error("a batch was committed without an entity that was not applied")
		}
		rollback(t, b)
	}
	// The key is deleted in the batch that also writes it.
	b := begin(t, k)
	apply(t, b, entity(4, feed.Delete, "a", "application/json", ""))
	if err := b.Apply(t.Context(), entity(5, feed.Patch, "a", patch.Merge, `{}`)); !errors.Is(err, patch.ErrMissing) {
		t.Errorf("patch after delete: %v", err)
	}
	rollback(t, b)
	checkPosition(t, k, at(1))
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body), record(text, text.Body), record(large, large.Body))
}

func (s suite) noKey(t *testing.T) {
	if s.Log {
		t.Skip("a log needs no keys")
	}
	k := s.open(t, t.TempDir())
	b := begin(t, k)
	err := b.Apply(t.Context(), put(1, "", `{}`))
	if !errors.Is(err, sink.ErrNoKey) || !strings.Contains(err.Error(), contentID(1)) || !strings.Contains(err.Error(), "--key") {
		t.Errorf("error is %v", err)
	}
	rollback(t, b)
}

// snapshot tests entities without an operation or a Content-ID.
func (s suite) snapshot(t *testing.T) {
	e := put(1, "a", `{"n":1}`)
	e.Operation, e.ContentID, e.Header = "", "", nil
	s.check(t, s.filled(t, e), record(e, e.Body))
}

func (s suite) cancelled(t *testing.T) {
	dir := t.TempDir()
	k := s.open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	b, err := k.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(ctx, put(1, "a", `1`)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := b.Apply(ctx, put(2, "b", `2`)); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply with a cancelled context: %v", err)
	}
	rollback(t, b)
	checkPosition(t, k, feed.Position{})
	b = begin(t, k)
	one := put(1, "a", `1`)
	apply(t, b, one)
	commit(t, b, at(1))
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body))
}

// commitAfterEnd commits a batch after its context has ended.
func (s suite) commitAfterEnd(t *testing.T) {
	dir := t.TempDir()
	k := s.open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	b, err := k.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	one := put(1, "a", `1`)
	if err := b.Apply(ctx, one); err != nil {
		t.Fatal(err)
	}
	cancel()
	commit(t, b, at(1))
	checkPosition(t, k, at(1))
	closeSink(t, k)
	s.check(t, dir, record(one, one.Body))
}

func (s suite) locked(t *testing.T) {
	dir := t.TempDir()
	k := s.open(t, dir)
	if second, err := s.Open(t.Context(), dir); !errors.Is(err, sink.ErrLocked) {
		if err == nil {
			second.Close()
		}
		t.Fatalf("a second consumer got %v, want %v", err, sink.ErrLocked)
	}
	one := put(1, "a", `1`)
	b := begin(t, k)
	apply(t, b, one)
	commit(t, b, at(1))
	closeSink(t, k)
	k = s.open(t, dir)
	checkPosition(t, k, at(1))
	closeSink(t, k)
}
