package producer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"weak"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A batch is published when the next entity does not fit into it. An entity is published at once if
// there is no memory for it. Entities that were dropped or refused are not published, and their memory
// is freed.
func TestWriter(t *testing.T) {
	store := memory.New()
	f := open(t, store, producer.Config{MaxEntity: 600})
	room := semaphore.NewWeighted(4096)
	var batches []int
	w := f.Writer(producer.WriterOptions{
		MaxEntities: 3, Memory: room,
		Done: func(o producer.Outcome) error {
			batches = append(batches, o.Receipt.Published)
			return o.Err
		},
	})
	add := func(all ...*producer.Entity) {
		t.Helper()
		for _, e := range all {
			if err := w.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait := func() {
		t.Helper()
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all := entities(ids(1, 7))
	add(all[:4]...)
	wait()
	if !room.TryAcquire(3200) {
		t.Fatal("published entities still take memory")
	}
	add(all[4:7]...) // the second of these entities finds no memory
	wait()
	room.Release(3200)
	if want := []int{3, 1, 2, 1}; !slices.Equal(batches, want) {
		t.Errorf("batches of %v, want %v", batches, want)
	}
	refused := entities(ids(8, 8))[0]
	refused.Body = make([]byte, 601)
	add(refused)
	if err := w.Flush(t.Context()); !errors.Is(err, producer.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	if err := w.Close(); !errors.Is(err, producer.ErrInvalid) {
		t.Error(err)
	}
	if err := w.Add(t.Context(), refused); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if !room.TryAcquire(4096) {
		t.Error("memory is lost")
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 7)) || w.Receipt().Published != 7 {
		t.Errorf("the feed has %v, receipt %+v", got, w.Receipt())
	}
}

// A target completes its batches when the test tells it to.
type target struct {
	begun []producer.Batch
	end   []chan error // one channel for each batch; the batch completes with the value sent
}

func (g *target) begin(_ context.Context, b producer.Batch) (func() (producer.Receipt, error), error) {
	end := make(chan error, 1)
	g.begun, g.end = append(g.begun, b), append(g.end, end)
	return func() (producer.Receipt, error) { return producer.Receipt{Published: len(b.Entities)}, <-end }, nil
}

// A batch has at most MaxBytes, or one entity.
func TestWriterMaxBytes(t *testing.T) {
	g := &target{}
	w := producer.NewWriter(g.begin, producer.WriterOptions{MaxBytes: 500, Ahead: 9})
	for _, size := range []int{300, 300, 200, 501, 0} {
		if err := w.Add(t.Context(), &producer.Entity{Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for n, b := range g.begun {
		sizes = append(sizes, len(b.Entities))
		g.end[n] <- nil
	}
	if want := []int{1, 2, 1, 1}; !slices.Equal(sizes, want) || w.Close() != nil {
		t.Errorf("batches of %v, want %v", sizes, want)
	}
}

// While batches are in flight, the next batch is collected, within the limits. Batches and marks
// complete in order, whatever the order in which writes end.
func TestWriterAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		g := &target{}
		w := producer.NewWriter(g.begin, producer.WriterOptions{
			MaxEntities: 2, Ahead: 2,
			Done: func(o producer.Outcome) error {
				done = append(done, fmt.Sprint(len(o.Entities), o.Marks))
				return nil
			},
		})
		if w.Idle() != nil {
			t.Error("idle without a batch")
		}
		added := 0
		go func() {
			for n, e := range entities(ids(1, 8)) {
				if err := w.Add(t.Context(), e); err != nil {
					t.Error(err)
				}
				if n%3 == 0 {
					w.Mark(n)
				}
				added++
			}
		}()
		synctest.Wait()
		// The seventh entity is in a batch that can begin only after one of the three batches has
		// ended.
		if added != 6 || len(g.begun) != 3 || !g.begun[0].More {
			t.Fatalf("%d entities were added, %d batches begun", added, len(g.begun))
		}
		g.end[1] <- nil
		synctest.Wait()
		if added != 6 || len(done) != 0 {
			t.Errorf("the second batch is done before the first: %q", done)
		}
		g.end[0] <- nil
		synctest.Wait()
		if added != 8 {
			t.Fatalf("%d entities were added", added)
		}
		select {
		case <-w.Idle():
			t.Error("idle with a batch under way")
		default:
		}
		g.end[2] <- nil
		<-w.Idle()
		go func() {
			synctest.Wait()
			g.end[3] <- nil
		}()
		if err := w.Wait(t.Context()); err != nil || g.begun[3].More {
			t.Error(err)
		}
		w.Mark("end")
		if err := w.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"2 [0]", "2 [3]", "2 []", "2 [6]", "0 [end]"}; !slices.Equal(done, want) {
			t.Errorf("done %q, want %q", done, want)
		}
	})
}

// After a batch has failed, or Done has returned an error for it, no other batch begins or completes.
func TestWriterFails(t *testing.T) {
	broken := errors.New("broken")
	for _, published := range []error{broken, nil} {
		synctest.Test(t, func(t *testing.T) {
			done := 0
			g := &target{}
			w := producer.NewWriter(g.begin, producer.WriterOptions{
				MaxEntities: 1, Ahead: 9,
				Done: func(producer.Outcome) error {
					done++
					return broken
				},
			})
			for _, e := range entities(ids(1, 3)) {
				if err := w.Add(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			for _, end := range g.end {
				end <- published
			}
			synctest.Wait()
			for _, err := range []error{w.Add(t.Context(), &producer.Entity{}), w.Flush(t.Context()), w.Wait(t.Context()), w.Close()} {
				if !errors.Is(err, broken) {
					t.Errorf("got %v", err)
				}
			}
			if done != 1 || len(g.begun) != 2 {
				t.Errorf("%d batches are done, %d begun", done, len(g.begun))
			}
		})
	}
}

// If a batch waits for other batches and its context ends, neither this batch nor later ones are
// published.
func TestWriterWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		store := memory.New()
		f, err := producer.Open(t.Context(), fault.Wrap(store, func(op fault.Op) fault.Outcome {
			if op.Verb == fault.Create {
				<-hold
			}
			return fault.Pass
		}), testFeed, producer.Config{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := f.Begin(t.Context(), producer.Batch{Entities: entities(ids(1, 1))})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // wait until the page is in flight
		ctx, cancel := context.WithCancel(t.Context())
		w := f.Writer(producer.WriterOptions{MaxEntities: 1, Ahead: 9})
		add := func(ctx context.Context, from, to int) {
			for _, e := range entities(ids(from, to)) {
				if err := w.Add(ctx, e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		add(ctx, 2, 2)
		add(t.Context(), 3, 4)
		cancel()
		synctest.Wait()
		close(hold)
		if err := w.Close(); !errors.Is(err, context.Canceled) || errors.Is(err, producer.ErrUnknown) {
			t.Errorf("got %v", err)
		}
		if _, err := first.Wait(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 1)) {
			t.Errorf("the feed has %v", got)
		}
	})
}

// TestWriterForgets: the memory of entities can be garbage collected once they have been published.
func TestWriterForgets(t *testing.T) {
	w := open(t, memory.New(), producer.Config{}).Writer(producer.WriterOptions{})
	published := func() weak.Pointer[producer.Entity] {
		e := entities(ids(1, 1))[0]
		if err := w.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return weak.Make(e)
	}()
	runtime.GC()
	if published.Value() != nil {
		t.Error("the writer still references a published entity")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
