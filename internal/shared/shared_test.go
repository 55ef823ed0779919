package shared_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/shared"
)

var (
	errOpen  = errors.New("cannot be opened")
	errClose = errors.New("cannot be closed")
)

// A door is the resource that the tests open. For each name, at most one door is open at any time.
type door struct {
	mu     sync.Mutex
	opened int
	open   bool
}

func (d *door) openIn(took time.Duration, err error) func(context.Context) (*door, error) {
	return func(ctx context.Context) (*door, error) {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if d.open {
			panic("opened twice")
		}
		d.opened++
		d.open = true
		return d, nil
	}
}

func (d *door) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		panic("closed twice")
	}
	d.open = false
	return nil
}

func closeIt(d *door) error { return d.close() }

// TestPool: users come and go at random.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p shared.Pool[*door]
		doors := map[string]*door{"a": {}, "b": {}}
		var users sync.WaitGroup
		for n := range 200 {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			name := []string{"a", "b"}[n%2]
			users.Go(func() {
				for range 20 {
					time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(200))*time.Millisecond)
					d, release, err := p.Open(ctx, name, doors[name].openIn(100*time.Millisecond, nil), closeIt)
					cancel()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						continue
					}
					if d != doors[name] {
						t.Error("another door")
					}
					time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
					d.mu.Lock()
					if !d.open {
						t.Error("closed while it is used")
					}
					d.mu.Unlock()
					for range 2 {
						if err := release(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		users.Wait()
		for name, d := range doors {
			if d.open || d.opened < 10 {
				t.Errorf("door %s: opened %d times, open: %t", name, d.opened, d.open)
			}
		}
	})
}

// TestErrors: all users that wait for the same resource get the same error, unless the error is
// that the first user no longer wants it.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p shared.Pool[*door]
		var d door
		var users sync.WaitGroup
		failed := 0
		for range 5 {
			users.Go(func() {
				_, _, err := p.Open(t.Context(), "a", func(ctx context.Context) (*door, error) {
					failed++
					return d.openIn(time.Second, errOpen)(ctx)
				}, closeIt)
				if !errors.Is(err, errOpen) {
					t.Error(err)
				}
			})
		}
		users.Wait()
		if failed != 1 {
			t.Errorf("failed %d times", failed)
		}

		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		users.Go(func() {
			if _, _, err := p.Open(brief, "a", d.openIn(time.Minute, nil), closeIt); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, release, err := p.Open(t.Context(), "a", d.openIn(time.Second, nil), func(*door) error { return errClose })
		if err != nil {
			t.Fatal(err)
		}
		if err := release(); !errors.Is(err, errClose) {
			t.Error(err)
		}
		users.Wait()
	})
}
