package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// latencyRate is how many entities a second are published.
const latencyRate = 1000

// A latencyLoad publishes numbered entities on schedule, and records when each is committed and
// when its row is seen. The rows are read every millisecond.
type latencyLoad struct {
	*bench
	clients int // that publish
	// publish returns once the entity is committed.
	publish func(n int) error
	// arrived calls seen with the number of each new row. Rows with numbers less than first have
	// already been seen; for other rows, seen may be called more than once.
	arrived func(first int, seen func(n int)) error
}

// measure returns how long it took until each row was seen. The first entity does not count: its
// arrival shows that all processes are running.
func (l *latencyLoad) measure() ([]time.Duration, error) {
	if err := l.first(); err != nil {
		return nil, err
	}
	total := int(l.time.Seconds() * latencyRate)
	committed, arrived := make([]time.Time, total+1), make([]time.Time, total+1)
	ctx, stop := context.WithCancelCause(l.ctx)
	defer stop(nil)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		if err := l.publishNumbers(ctx, committed); err != nil {
			stop(err)
		}
	})
	err := l.wait(ctx, arrived)
	if err != nil {
		stop(err)
	}
	publishing.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	took := make([]time.Duration, total)
	for n := range took {
		took[n] = max(0, arrived[n+1].Sub(committed[n+1]))
	}
	return took, nil
}

// first publishes the first entity and waits for it; the consumer makes the table.
func (l *latencyLoad) first() error {
	if err := l.publish(0); err != nil {
		return err
	}
	deadline := time.Now().Add(startupTime)
	for found := false; !found; time.Sleep(10 * time.Millisecond) {
		if err := l.arrived(0, func(int) { found = true }); !found && time.Now().After(deadline) {
			return errors.Join(errors.New("the first entity has not arrived"), err)
		}
	}
	return nil
}

// wait records when each row arrives, until all have arrived.
func (l *latencyLoad) wait(ctx context.Context, arrived []time.Time) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for first := 1; first < len(arrived); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var unknown error
		err := l.arrived(first, func(n int) {
			switch {
			case n < 0 || n >= len(arrived):
				unknown = fmt.Errorf("a row has the key %d, which was not published", n)
			case arrived[n].IsZero():
				arrived[n] = time.Now()
			}
		})
		for first < len(arrived) && !arrived[first].IsZero() {
			first++
		}
		if err = errors.Join(err, unknown); err != nil {
			return err
		}
	}
	return nil
}

// publishNumbers publishes an entity for each number, beginning with 1, on schedule, and records
// when it was committed.
func (l *latencyLoad) publishNumbers(ctx context.Context, committed []time.Time) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range l.clients {
		clients.Go(func() {
			for n := range numbers {
				if err := l.publish(n); err != nil {
					stop(err)
				}
				committed[n] = time.Now()
			}
		})
	}
	start := time.Now()
	for n := 1; n < len(committed) && ctx.Err() == nil; n++ {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / latencyRate)))
		numbers <- n
	}
	close(numbers)
	clients.Wait()
	return context.Cause(ctx)
}
