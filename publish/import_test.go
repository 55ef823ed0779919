package publish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/feed"
)

// A recorder is a target that records batches. Tests determine how the batches end.
type recorder struct {
	batches []string // for each batch, the number of its entities, and whether more follow
	end     []chan error
	ended   chan struct{} // if closed, all batches end without an error
	refuse  error         // returned by Begin
}

func newRecorder() *recorder { return &recorder{ended: make(chan struct{})} }

func (r *recorder) Begin(_ context.Context, entities []*feed.Entity, more bool) (func() (Receipt, error), error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	end := make(chan error, 1)
	r.batches, r.end = append(r.batches, fmt.Sprint(len(entities), more)), append(r.end, end)
	return func() (Receipt, error) {
		select {
		case err := <-end:
			return Receipt{Published: len(entities)}, err
		case <-r.ended:
			return Receipt{Published: len(entities)}, nil
		}
	}, nil
}

// An input yields entities when the test sends them, and calls tell when it waits.
type input struct {
	entities chan []*feed.Entity
	broken   error // the error that follows the last entity
	tell     func(bool)
}

func (in *input) all() iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for {
			in.tell(false)
			some, ok := <-in.entities
			in.tell(true)
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
			if !ok {
				break
			}
		}
		if in.broken != nil {
			yield(nil, in.broken)
		}
	}
}

func sized(n, size int) (all []*feed.Entity) {
	for range n {
		all = append(all, &feed.Entity{Body: make([]byte, size)})
	}
	return all
}

// start starts an import, to be run in fake time.
func start(ctx context.Context, im *Import, in *input) (wait func() (Result, error)) {
	in.entities = make(chan []*feed.Entity)
	im.Entities, im.Tell = in.all(), func(busy func(bool)) { in.tell = busy }
	var result Result
	err := errors.New("still running")
	go func() { result, err = im.Run(ctx) }()
	return func() (Result, error) {
		synctest.Wait()
		return result, err
	}
}

// Entities that arrive slowly are published at once; entities that arrive fast are published in
// full batches. If the input returns an error, all entities before it are published.
func TestImportBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newRecorder()
		in := &input{broken: errors.New("broken")}
		wait := start(t.Context(), &Import{To: to}, in)
		in.entities <- sized(1, 1)
		in.entities <- sized(2, 1)
		in.entities <- append(sized(4096, 1), sized(3, batchBytes/2)...)
		in.entities <- []*feed.Entity{{Body: []byte("small")}, {Stream: strings.NewReader("large")}, {}}
		close(in.entities)
		wait()
		close(to.ended)
		result, err := wait()
		if want := []string{"1 false", "2 false", "4096 true", "2 true", "1 false", "2 false", "1 false"}; !slices.Equal(to.batches, want) {
			t.Errorf("batches %q, want %q", to.batches, want)
		}
		if !errors.Is(err, in.broken) || result.Published != 4105 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// An import reads no more entities than fit into memory.
func TestImportMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newRecorder()
		in := &input{}
		wait := start(t.Context(), &Import{To: to, Memory: 3 << 20}, in)
		go func() {
			for range 9 {
				in.entities <- sized(1, batchBytes)
			}
			close(in.entities)
		}()
		for done := range 7 {
			wait()
			if want := min(9, 3+done); len(to.end) != want {
				t.Fatalf("%d batches have begun when %d are published, want %d", len(to.end), done, want)
			}
			to.end[done] <- nil
		}
		close(to.ended)
		if result, err := wait(); result.Published != 9 || err != nil {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// While a large entity is read, at most one other entity is being published.
func TestImportLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newRecorder()
		in := &input{}
		wait := start(t.Context(), &Import{To: to, Memory: 1 << 30}, in)
		read := 0
		go func() {
			for range 5 {
				in.entities <- sized(1, large+1)
				read++
			}
			close(in.entities)
		}()
		for done := range 5 {
			wait()
			if want := min(5, done+2); len(to.end) != want || read != want {
				t.Fatalf("read %d entities, %d batches have begun when %d are published, want %d", read, len(to.end), done, want)
			}
			to.end[done] <- nil
		}
		if result, err := wait(); result.Published != 5 || err != nil {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// With a state, all entities that are being published at the same time fit onto the pages on
// which Content-IDs are recognized.
func TestImportWindow(t *testing.T) {
	for _, c := range []struct {
		pageEntities int
		pageBytes    int64
		size, most   int
	}{
		{10_000, 1 << 20, 0, 16 << 10},
		{10_000, 1 << 20, 1 << 19, 16},
		{20, 1 << 20, 0, 320},
		{10_000, 64 << 10, 1 << 15, 16},
		{1, 1, 0, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			state, err := OpenState(filepath.Join(t.TempDir(), "state"), "f")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			to := newRecorder()
			in := &input{}
			im := &Import{To: to, Memory: 1 << 30, State: state, PageEntities: c.pageEntities, PageBytes: c.pageBytes}
			wait := start(ctx, im, in)
			read := 0
			go func() {
				for {
					select {
					case in.entities <- sized(1, c.size):
						read++
					case <-ctx.Done():
						return
					}
				}
			}()
			wait()
			if begun := len(to.end); begun == 0 || read > c.most {
				t.Errorf("pages of %d entities and %d bytes: read %d entities of %d bytes, want at most %d", c.pageEntities, c.pageBytes, read, c.size, c.most)
			}
			cancel()
			close(to.ended)
			wait()
			close(in.entities)
		})
	}
}

// An import ends when its context ends or a batch fails, even if the input does not end; batches
// that have been begun are finished.
func TestImportEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, stop := range map[string]struct {
		do     func(cancel func(), to *recorder, in *input)
		result int64
		err    error
	}{
		"context": {func(cancel func(), to *recorder, _ *input) {
			cancel()
			synctest.Wait()
			close(to.ended)
		}, 2, context.Canceled},
		"context after the input": {func(cancel func(), to *recorder, in *input) {
			close(in.entities)
			synctest.Wait()
			cancel()
			synctest.Wait()
			close(to.ended)
		}, 2, nil},
		"batch": {func(_ func(), to *recorder, _ *input) {
			to.end[0] <- nil
			to.end[1] <- broken
		}, 1, broken},
		"begin": {func(_ func(), to *recorder, in *input) {
			to.refuse = broken
			in.entities <- sized(1, 1)
			synctest.Wait()
			close(to.ended)
		}, 2, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				to := newRecorder()
				in := &input{}
				wait := start(ctx, &Import{To: to}, in)
				in.entities <- sized(1, 1)
				in.entities <- sized(1, 1)
				wait()
				stop.do(cancel, to, in)
				result, err := wait()
				if result.Acknowledged != stop.result || !errors.Is(err, stop.err) {
					t.Errorf("%+v, %v", result, err)
				}
				if err != nil {
					close(in.entities)
				}
			})
		})
	}
}
