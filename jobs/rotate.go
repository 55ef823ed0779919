package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// makeRoom ends runs to make room for waiting jobs, beginning with those that have caught up.
func (w *worker) makeRoom(ctx context.Context, n Node) error {
	waiting, err := w.store.Waiting(ctx, n, w.slots())
	if err != nil {
		return err
	}
	w.rotate(waiting, func(*activeRun) bool { return true })
	return nil
}

// makeRoomAt does the same for jobs that wait because their origins are full.
func (w *worker) makeRoomAt(ctx context.Context, full []string) error {
	crowded, err := w.store.crowded(ctx, full, w.slots())
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.crowded = crowded
	w.mu.Unlock()
	for origin, waiting := range crowded {
		w.rotate(waiting, func(a *activeRun) bool { return slices.Contains(a.origins[:], origin) })
	}
	return nil
}

// rotate ends up to most of the runs that are in the way of others.
func (w *worker) rotate(most int, inTheWay func(*activeRun) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found, long []*activeRun
	for _, a := range w.runs {
		switch {
		case a.end == nil || !inTheWay(a):
		case a.told:
			most--
		case a.lingers && a.session.answered() > 0:
			found = append(found, a)
		case a.session.Document.Follow && time.Since(a.began) > w.store.settings().MinRunTime:
			long = append(long, a)
		}
	}
	slices.SortFunc(long, func(a, b *activeRun) int { return a.began.Compare(b.began) })
	if len(found) < most && len(long) > 0 && time.Since(w.rotated) > w.store.settings().Interval {
		w.rotated = time.Now()
		found = append(found, long[:min(len(long), w.store.settings().MaxChurn)]...)
	}
	for _, a := range found[:max(0, min(len(found), most))] {
		a.told = true
		a.end(errRotated)
	}
}

// shrink ends runs if there are more than slots, as those are fewer now: first those that only
// linger, then those of jobs that follow, the oldest first, and others last.
func (w *worker) shrink() {
	w.mu.Lock()
	defer w.mu.Unlock()
	excess := len(w.runs) - w.slots()
	var found []*activeRun
	for _, a := range w.runs {
		if a.told {
			excess--
		} else if a.end != nil {
			found = append(found, a)
		}
	}
	class := func(a *activeRun) int {
		switch {
		case a.lingers && a.session.answered() > 0:
			return 0
		case a.session.Document.Follow:
			return 1
		}
		return 2
	}
	slices.SortFunc(found, func(a, b *activeRun) int { return cmp.Or(cmp.Compare(class(a), class(b)), a.began.Compare(b.began)) })
	for _, a := range found[:max(0, min(len(found), excess))] {
		a.told = true
		a.end(errShrunk)
	}
}
