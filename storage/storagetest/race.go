package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

const (
	raceWriters    = 64
	raceKeys       = 10
	counterWriters = 32
	counterSteps   = 5
	longer         = 4 // with Options.Long, the numbers are multiplied by this
)

// testRaceCreate makes 64 writers create each of 10 keys, or of 40 with Options.Long. Exactly one
// must succeed for each key.
func testRaceCreate(t *testing.T, s *suite) {
	keys := raceKeys
	if s.opts.Long {
		keys *= longer
	}
	for i := range keys {
		key := s.key(fmt.Sprintf("race/%02d", i))
		var winners atomic.Int32
		var winner atomic.Value
		var writers sync.WaitGroup
		start := make(chan struct{})
		for w := range raceWriters {
			writers.Go(func() {
				<-start
				body := []byte(strconv.Itoa(w))
				version, err := s.store.Create(t.Context(), key, claimOf("race", w, body), storage.Bytes(body))
				switch {
				case err == nil:
					winners.Add(1)
					winner.Store(version)
				case !errors.Is(err, storage.ErrExists):
					t.Errorf("Create: %v", err)
				}
			})
		}
		close(start)
		writers.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("%s: %d writers created it", key, n)
		}
		info, _, err := whole(t.Context(), s.store, key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Version != winner.Load() {
			t.Errorf("%s has version %s, the winner got %s", key, info.Version, winner.Load())
		}
	}
}

// testRaceIncrement makes 32 writers, or Options.Counters, add 1 to a number 5 times each, or 20
// times with Options.Long. They use Append or, sometimes, Replace.
func testRaceIncrement(t *testing.T, s *suite) {
	steps := counterSteps
	if s.opts.Long {
		steps *= longer
	}
	counters := s.opts.Counters
	if counters == 0 {
		counters = counterWriters
	}
	for verb, n := range map[string]int{"append": counters, "replace": max(2, counters/4)} {
		key := s.key("counter-" + verb)
		s.create(t, key, claimOf("counter", 0, nil), "")
		var writers sync.WaitGroup
		for w := range n {
			writers.Go(func() {
				for range steps {
					if err := increment(t.Context(), s.store, key, verb, strconv.Itoa(w)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		checkCounter(t, s, key, n*steps)
	}
}

func checkCounter(t *testing.T, s *suite, key string, want int) {
	t.Helper()
	info, c, err := whole(t.Context(), s.store, key)
	if err != nil {
		t.Fatal(err)
	}
	if c.N != want || info.Size != int64(want) {
		t.Errorf("%s: counter is %d with %d bytes, want %d: updates were lost", key, c.N, info.Size, want)
	}
}

// increment adds 1 to the number in the metadata and a byte to the body, and tries again after each
// conflict.
func increment(ctx context.Context, store storage.Store, key, verb, writer string) error {
	for {
		o, err := store.Get(ctx, key, 0, -1)
		if err != nil {
			return err
		}
		var body bytes.Buffer
		o.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(o.Body, &body), o.Body}
		c, err := checkWhole(o)
		o.Body.Close()
		if err != nil {
			return err
		}
		body.WriteByte('+')
		meta := claimOf(writer, c.N+1, body.Bytes())
		if verb == "append" {
			_, err = store.Append(ctx, key, o.Version, meta, storage.Bytes([]byte("+")))
		} else {
			_, err = store.Replace(ctx, key, o.Version, meta, storage.Bytes(body.Bytes()))
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
}

// testRaceAll makes writers perform all kinds of writes on one key. Each version may be replaced
// only once, so the successful writes form one chain.
func testRaceAll(t *testing.T, s *suite) {
	key := s.key("all/in/one")
	type step struct{ from, to storage.Version }
	var mu sync.Mutex
	taken := make(map[storage.Version]step)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 40 {
				body := fmt.Appendf(nil, "%d-%d", w, i)
				meta := claimOf(strconv.Itoa(w), i, body)
				info, err := s.store.Stat(t.Context(), key)
				var to storage.Version
				switch {
				case errors.Is(err, storage.ErrNotFound):
					_, err = s.store.Create(t.Context(), key, meta, storage.Bytes(body))
				case err != nil:
				case i%8 == 7:
					err = s.store.Delete(t.Context(), key)
				default:
					to, err = s.store.Replace(t.Context(), key, info.Version, meta, storage.Bytes(body))
					if err == nil {
						mu.Lock()
						if other, ok := taken[info.Version]; ok {
							t.Errorf("version %s was replaced by %s and by %s", info.Version, other.to, to)
						}
						taken[info.Version] = step{info.Version, to}
						mu.Unlock()
					}
				}
				if err != nil && !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict) {
					t.Errorf("writer %d, step %d: %v", w, i, err)
				}
				if _, _, err := whole(t.Context(), s.store, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("writer %d, step %d: %v", w, i, err)
				}
			}
		})
	}
	writers.Wait()
}
