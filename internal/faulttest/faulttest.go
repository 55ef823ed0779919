// Package faulttest runs a program many times, and makes a different one of its operations on a store fail each
// time.
package faulttest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A Path is a sequence of operations that a program performs on a store, and may repeat after an error.
type Path struct {
	Name string
	// Setup prepares the store. It is called once; each case begins with a copy of that store, at the time at
	// which Setup returned.
	Setup func(t *testing.T, store storage.Store)
	Do    func(ctx context.Context, store storage.Store) error
	// Check fails the test if the store is in a state that it must not be in. done reports whether Do
	// returned nil.
	Check func(t *testing.T, store storage.Store, done bool)
}

// Run makes each operation of each path fail, either before or after it takes effect, and either only that
// operation or all later ones as well. It then repeats the path on a working store. With -short, it runs a
// random tenth of the cases.
func Run(t *testing.T, paths []Path) {
	for _, p := range paths {
		t.Run(strings.ReplaceAll(p.Name, " ", "_"), func(t *testing.T) {
			var operations atomic.Int64
			var begin state
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				p.Setup(t, store)
				begin = state{store.Clone(), time.Now().Round(0)}
				if err := p.Do(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome { operations.Add(1); return fault.Pass })); err != nil {
					t.Fatal(err)
				}
				p.Check(t, store, true)
			})
			if operations.Load() == 0 {
				t.Fatal("no operation was called")
			}
			for n := range operations.Load() {
				for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
					for _, lasting := range []bool{false, true} {
						if testing.Short() && rand.IntN(10) > 0 {
							continue
						}
						t.Run(fmt.Sprintf("%d/%v/lasting=%v", n, outcome, lasting), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { p.fail(t, begin, n, outcome, lasting) })
						})
					}
				}
			}
		})
	}
}

// A state is the store as Setup left it, and the time at which Setup returned.
type state struct {
	store *memory.Store
	at    time.Time
}

func (p Path) fail(t *testing.T, begin state, n int64, outcome fault.Outcome, lasting bool) {
	store := begin.store.Clone()
	time.Sleep(time.Until(begin.at))
	var count atomic.Int64
	err := p.Do(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome {
		if k := count.Add(1); k == n+1 || lasting && k > n {
			return outcome
		}
		return fault.Pass
	}))
	p.Check(t, store, err == nil)
	if again := p.Do(t.Context(), store); again != nil {
		t.Fatalf("after the fault (%v): %v", err, again)
	}
	p.Check(t, store, true)
}

// ReadObject returns the body of an object.
func ReadObject(t *testing.T, store storage.Store, key string) []byte {
	t.Helper()
	object, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	data, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
