package s3_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/storage"
)

var seeds = flag.Int("fault-seeds", 3, "number of random runs of TestRandomFaults")

const (
	randomWriters = 6
	randomSteps   = 12
	randomKeys    = 12
)

// TestRandomFaults makes requests fail at random while writers increment a counter by
// compare-and-swap and create keys. Each write that takes effect adds a line to the body of the
// counter.
func TestRandomFaults(t *testing.T) {
	bed := newFaultBed(t)
	runs := *seeds
	if testing.Short() {
		runs = 1
	}
	for seed := range runs {
		for _, verb := range []string{"append", "replace"} {
			t.Run(fmt.Sprintf("%s/%d", verb, seed), func(t *testing.T) { testRandom(t, bed, uint64(seed), verb) })
		}
	}
}

// A history records the outcome of each write, as reported to the writer, by the line written.
type history struct {
	mu   sync.Mutex
	said map[string]error // nil: acknowledged
}

func (h *history) note(line string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[line] = err
}

func testRandom(t *testing.T, bed *faultBed, seed uint64, verb string) {
	ctx := t.Context()
	counter, names := bed.key(), bed.key()
	if _, err := bed.clean.Create(ctx, counter, storage.Meta{}, storage.Bytes()); err != nil {
		t.Fatal(err)
	}
	counted := &history{said: make(map[string]error)}
	created := &history{said: make(map[string]error)}
	var writers sync.WaitGroup
	for w := range randomWriters {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		store := bed.open(t, randomly(bed, rng))
		writers.Go(func() {
			for i := range randomSteps {
				line := fmt.Sprintf("%d-%d", w, i)
				if err := count(ctx, store, counter, verb, line, counted); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
				key := fmt.Sprintf("%s/%d", names, (w+i)%randomKeys)
				_, err := store.Create(ctx, key, storage.Meta{Data: []byte(line)}, storage.Bytes([]byte(line)))
				created.note(key+" "+line, err)
			}
		})
	}
	writers.Wait()
	checkCount(t, bed, counter, counted)
	checkCreated(t, bed, names, created)
}

// randomly injects a fault into about one request in five. It never duplicates a request: if the
// first copy succeeded, then another client wrote and the second copy was rejected, the outcome
// could not be determined.
func randomly(bed *faultBed, rng *rand.Rand) func(s3fault.Request) s3fault.Fault {
	var mu sync.Mutex
	cases := faultCases(bed.elsewhere)
	return func(r s3fault.Request) s3fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		f := cases[rng.IntN(len(cases))]
		if rng.IntN(5) > 0 || f.late != nil || f.twice || !f.fits(r.Operation) {
			return nil
		}
		return f.fault
	}
}

// count adds a line to the body of the counter, and 1 to the number of lines in its metadata. After
// a conflict it reads the counter and tries again; after an unknown outcome it gives up. It returns
// an error if a read is inconsistent.
func count(ctx context.Context, store storage.Store, key, verb, line string, h *history) error {
	for {
		is, version, err := look(ctx, store, key)
		if err != nil || is == nil {
			h.note(line, storage.ErrNotFound) // the counter cannot be read, so nothing was written
			return nil
		}
		lines := bytes.Count(is.body, []byte("\n"))
		if lines > 0 && string(is.meta.Data) != fmt.Sprint(lines) {
			return fmt.Errorf("read %d lines with metadata for %s", lines, is.meta.Data)
		}
		meta := storage.Meta{Data: fmt.Append(nil, lines+1)}
		if verb == "append" {
			_, err = store.Append(ctx, key, version, meta, storage.Bytes([]byte(line+"\n")))
		} else {
			_, err = store.Replace(ctx, key, version, meta, storage.Bytes(is.body, []byte(line+"\n")))
		}
		if !errors.Is(err, storage.ErrConflict) {
			h.note(line, err)
			return nil
		}
	}
}

// checkCount compares the lines of the counter with the reported outcomes.
func checkCount(t *testing.T, bed *faultBed, key string, h *history) {
	t.Helper()
	is, _, err := look(t.Context(), bed.clean, key)
	if err != nil || is == nil {
		t.Fatalf("%v, %v", is, err)
	}
	times := make(map[string]int)
	for line := range strings.Lines(string(is.body)) {
		times[strings.TrimSuffix(line, "\n")]++
	}
	acknowledged, unknown := 0, 0
	for line, err := range h.said {
		switch n := times[line]; {
		case err == nil:
			acknowledged++
			if n != 1 {
				t.Errorf("line %s was acknowledged and exists %d times", line, n)
			}
		case isDefinite(err) || errors.Is(err, storage.ErrNotFound):
			if n != 0 {
				t.Errorf("line %s exists %d times, but was refused: %v", line, n, err)
			}
		default:
			unknown++
			if n > 1 {
				t.Errorf("line %s exists %d times", line, n)
			}
		}
		delete(times, line)
	}
	if len(times) > 0 {
		t.Errorf("unexpected lines: %v", times)
	}
	t.Logf("%d lines were acknowledged, %d are unknown, of %d", acknowledged, unknown, len(h.said))
	if acknowledged < len(h.said)/4 {
		t.Errorf("only %d writes of %d were acknowledged: too few for a meaningful test", acknowledged, len(h.said))
	}
}

// checkCreated compares the object at each key with the outcomes reported to the writers that tried
// to create it.
func checkCreated(t *testing.T, bed *faultBed, prefix string, h *history) {
	t.Helper()
	for i := range randomKeys {
		key := fmt.Sprintf("%s/%d", prefix, i)
		is, _, err := look(t.Context(), bed.clean, key)
		if err != nil {
			t.Fatal(err)
		}
		for said, err := range h.said {
			line, ok := strings.CutPrefix(said, key+" ")
			if !ok {
				continue
			}
			won := is != nil && string(is.body) == line && string(is.meta.Data) == line
			if err == nil && !won {
				t.Errorf("%s: Create by %s succeeded, but the object is %v", key, line, is)
			}
			if isDefinite(err) && won {
				t.Errorf("%s: Create by %s took effect, but returned %v", key, line, err)
			}
			if errors.Is(err, storage.ErrExists) && is == nil {
				t.Errorf("%s: Create by %s returned ErrExists: %v", key, line, err)
			}
		}
	}
}
