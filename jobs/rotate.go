package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// makeRoom ends runs to make room for waiting jobs, beginning with those that have caught up. It ends none while
// there is room, or if other runs were told to end within the last interval: the waiting jobs may then start, or turn
// out to wait for their origins.
func (w *worker) makeRoom(ctx context.Context, n Node) error {
	w.mu.Lock()
	full := len(w.runs) >= w.slots()
	for _, a := range w.runs {
		full = full && time.Since(a.told) > w.store.settings().Interval
	}
	w.mu.Unlock()
	if !full {
		return nil
	}
	waiting, err := w.store.Waiting(ctx, n, w.slots())
	if err != nil {
		return err
	}
	return w.rotate(ctx, n, "", waiting)
}

// makeRoomAt makes room for jobs that wait because their origins are full.
func (w *worker) makeRoomAt(ctx context.Context, n Node, full []string) error {
	crowded, err := w.store.crowded(ctx, full, w.slots())
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.crowded = crowded
	w.mu.Unlock()
	for origin, waiting := range crowded {
		if err := w.rotate(ctx, n, origin, waiting); err != nil {
			return err
		}
	}
	return nil
}

// waitsNoMore no longer counts a starting job among the jobs that wait for its origins, so that its own run
// may keep its slot. The caller must hold w.mu.
func (w *worker) waitsNoMore(j *Job) {
	for n, origin := range j.origins {
		if w.crowded[origin] > 0 && (n == 0 || origin != j.origins[0]) {
			w.crowded[origin]--
		}
	}
}

// rotate ends at most the given number of runs to make room for others: runs that use an origin, or any runs
// if origin is "".
// Runs that have more to do are ended only once per interval, according to the shares of their namespaces.
func (w *worker) rotate(ctx context.Context, n Node, origin string, most int) error {
	settings := w.store.settings()
	w.mu.Lock()
	var lingering, long []*activeRun
	for _, a := range w.runs {
		switch {
		case a.end == nil || origin != "" && !slices.Contains(a.origins[:], origin):
		case !a.told.IsZero():
			most--
		case a.lingers && a.session.answered() > 0:
			lingering = append(lingering, a)
		case a.session.Document.Follow && time.Since(a.began) > settings.MinRunTime:
			long = append(long, a)
		}
	}
	for _, a := range lingering[:max(0, min(len(lingering), most))] {
		a.told = time.Now()
		a.end(errRotated)
		most--
	}
	due := time.Since(w.rotated[origin]) > settings.Interval
	if due && most > 0 && len(long) > 0 {
		maps.DeleteFunc(w.rotated, func(_ string, at time.Time) bool { return time.Since(at) > settings.Interval })
		w.rotated[origin] = time.Now()
	}
	w.mu.Unlock()
	if !due || most <= 0 || len(long) == 0 {
		return nil
	}
	tenants, err := w.store.queue(ctx, n, origin)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range overShare(tenants, long, min(most, settings.MaxChurn), settings.MinRunTime) {
		if a.told.IsZero() {
			a.told = time.Now()
			a.end(errRotated)
		}
	}
	return nil
}

// overShare returns the runs that are to end for waiting jobs, at most the given number. Each slot goes to
// the namespace with waiting jobs that has used least in proportion to its shares. The slot comes from the
// namespace that has used most, if the waiting namespace would still have used less after a run of the
// minimum duration; otherwise it comes from the waiting namespace itself. So no run is ended only for its job to be
// started again.
func overShare(tenants map[string]*tenant, long []*activeRun, most int, least time.Duration) (ending []*activeRun) {
	runs := map[string][]*activeRun{} // by namespace, the oldest first
	slices.SortFunc(long, func(a, b *activeRun) int { return a.began.Compare(b.began) })
	for _, a := range long {
		if namespace := a.session.Document.Namespace; tenants[namespace] != nil { // otherwise its last job was deleted
			runs[namespace] = append(runs[namespace], a)
		}
	}
	waiting := map[string]*tenant{}
	for namespace, x := range tenants {
		if x.waiting > 0 {
			waiting[namespace] = x
		}
	}
	for len(ending) < most && len(waiting) > 0 {
		next := leastUsed(waiting)
		from := mostUsed(tenants, runs)
		if from == nil {
			break
		}
		if next.limited && next.room <= 0 || (next.usage+least.Seconds())*from.shares >= from.usage*next.shares {
			from = next
		}
		if len(runs[from.namespace]) == 0 {
			delete(waiting, next.namespace)
			continue
		}
		ending = append(ending, runs[from.namespace][0])
		runs[from.namespace] = runs[from.namespace][1:]
		if from != next {
			next.room--
			from.room++
		}
		next.usage += least.Seconds()
		if next.waiting--; next.waiting == 0 {
			delete(waiting, next.namespace)
		}
	}
	return ending
}

// mostUsed returns, of the tenants with runs, the one that has used most in proportion to its shares.
func mostUsed(tenants map[string]*tenant, runs map[string][]*activeRun) (most *tenant) {
	for namespace, list := range runs {
		x := tenants[namespace]
		if len(list) > 0 && (most == nil || x.usage*most.shares > most.usage*x.shares ||
			x.usage*most.shares == most.usage*x.shares && x.namespace < most.namespace) {
			most = x
		}
	}
	return most
}

// shrink ends runs if there are more runs than slots, because the number of slots was lowered: first runs
// that only linger, then those of jobs that follow, the oldest first, and others last.
func (w *worker) shrink() {
	w.mu.Lock()
	defer w.mu.Unlock()
	excess := len(w.runs) - w.slots()
	var found []*activeRun
	for _, a := range w.runs {
		if !a.told.IsZero() {
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
		a.told = time.Now()
		a.end(errShrunk)
	}
}
