package couchdb

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestAhead: while the caller uses a value, the next one is produced, but not the one after that.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken, for a test")
		made := 0
		seq := func(yield func(int, error) bool) {
			for made < 4 {
				made++
				if !yield(made, nil) {
					return
				}
			}
			yield(0, broken)
		}
		var used, counts []int
		var last error
		for n, err := range ahead(seq) {
			synctest.Wait()
			used, counts, last = append(used, n), append(counts, made), err
		}
		if diff := cmp.Diff([][]int{{1, 2, 3, 4, 0}, {2, 3, 4, 4, 4}}, [][]int{used, counts}); diff != "" || last != broken {
			t.Errorf("%v; values, and how many were made by then (-want +got):\n%s", last, diff)
		}
	})
}

// TestAheadEnds: the goroutine ends with the loop; synctest fails a test that leaves one
// running.
func TestAheadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		for range ahead(func(yield func(int, error) bool) {
			defer func() { ended = true }()
			for yield(1, nil) {
			}
		}) {
			break
		}
		if !ended {
			t.Error("the goroutine has not ended with the loop")
		}
	})
}
