package couchdb

import "iter"

// ahead yields what seq yields. While the caller uses a value, seq produces the next one in another
// goroutine, which ends before the iteration does.
func ahead[T any](seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	type made struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		next, stop := make(chan made), make(chan struct{})
		go func() {
			defer close(next)
			for value, err := range seq {
				select {
				case next <- made{value, err}:
				case <-stop:
					return
				}
			}
		}()
		defer func() {
			close(stop)
			for range next { // until it is closed
			}
		}()
		for m := range next {
			if !yield(m.value, m.err) {
				return
			}
		}
	}
}
