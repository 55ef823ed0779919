package producer_test

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestWriter: a full batch is published, as is an entity for which there is no memory; what was
// discarded, or refused, is not, and its memory is free again.
func TestWriter(t *testing.T) {
	store := memory.New()
	f := open(t, store, producer.Config{MaxEntity: 600})
	room := semaphore.NewWeighted(4096)
	var batches []int
	w := f.Writer(producer.WriterOptions{
		MaxEntities: 3, Memory: room,
		Published: func(r producer.Receipt) { batches = append(batches, r.Published) },
	})
	add := func(e *producer.Entity) error { return w.Add(t.Context(), e) }
	flush := func() {
		t.Helper()
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range entities(ids(1, 4)) {
		if err := add(e); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	if !room.TryAcquire(3500) {
		t.Fatal("published entities still take memory")
	}
	last := entities(ids(5, 9))
	for _, e := range last[:3] { // the second of them finds no room
		if err := add(e); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	room.Release(3500)
	if want := []int{3, 1, 2, 1}; !slices.Equal(batches, want) {
		t.Errorf("batches of %v, want %v", batches, want)
	}
	if err := add(last[3]); err != nil {
		t.Fatal(err)
	}
	w.Discard()
	last[4].Body = make([]byte, 601)
	if err := add(last[4]); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); !errors.Is(err, producer.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	flush() // publishes nothing
	if !room.TryAcquire(4096) {
		t.Error("memory is lost")
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 7)) || w.Receipt().Published != 7 {
		t.Errorf("the feed has %v, receipt %+v", got, w.Receipt())
	}
}
