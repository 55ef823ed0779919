package e2e

import "context"

// A walker holds the functions that a random walk calls: for a writer, and for the processes behind it.
type walker struct {
	write    func(context.Context) error // makes one change
	progress [3]func() int64             // of the writer and of what copies its changes, as numbers that grow
	state    func() string
	kill     func(k int) // kills and restarts a process
}

// walk has the writer make changes while processes are being killed at random points.
func (r *rig) walk(writes, kills int, w walker) {
	written := make(chan error, 1)
	steps := make(chan struct{}) // each value allows the writer one change
	go func() {
		for range steps {
			if err := w.write(r.t.Context()); err != nil {
				written <- err
				for range steps { // nothing else receives from the channel
				}
				return
			}
		}
		written <- nil
	}()
	for k := range kills {
		for range writes / kills {
			steps <- struct{}{}
		}
		// Kill busy processes, too: wait until a change has reached one of them, and a
		// random time more.
		progress := w.progress[r.rng.IntN(len(w.progress))]
		before := progress()
		steps <- struct{}{}
		waitFor(r.t, w.state, func() bool { return progress() > before })
		for range r.rng.IntN(20) {
			for _, progress := range w.progress {
				progress()
			}
		}
		w.kill(k)
	}
	close(steps)
	if err := <-written; err != nil {
		r.t.Fatal(err)
	}
}
