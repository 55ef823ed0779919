// Package together makes similar calls concurrently.
package together

import "sync"

// Do calls do concurrently with each of the numbers from 0 to n-1, and waits for all calls. It
// returns the error of the failed call with the lowest number.
func Do(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n - 1 {
		group.Go(func() { errs[i] = do(i) })
	}
	if n > 0 { // the last call runs in this goroutine, whose stack has already grown
		errs[n-1] = do(n - 1)
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
