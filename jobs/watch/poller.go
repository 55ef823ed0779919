package watch

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/backoff"
)

// refreshEvery is the interval at which a source that compares states reloads the names that jobs wait
// for.
const refreshEvery = 10 * time.Second

// hintsPause is how long to wait after a hint, so that changes in quick succession are noticed together.
const hintsPause = 100 * time.Millisecond

// A poller compares the states of the names of a server that does not report changes. Names that change
// often are compared more frequently than others.
type poller struct {
	watched *Watched
	// fastest and slowest are the minimum and the maximum time between two comparisons of a name. The
	// time is the minimum after a change, and doubles with each comparison that finds no change.
	fastest, slowest time.Duration
	// round is the time between rounds, and most is the maximum number of names that a round compares,
	// of those that are due.
	round time.Duration
	most  int
	// compare returns the current states of names, given their previous states. It leaves out names
	// whose state it cannot get, and returns an error if no name is left. The jobs of a name that is
	// left out twice in a row are woken.
	compare func(ctx context.Context, states map[string]string) (map[string]string, error)
	// hints holds names that are due at once. It may be nil.
	hints *hints

	turns map[string]*turn
	cycle time.Time // when the last comparison of all names ended
}

// A turn says when a name is compared next, and holds the results of earlier comparisons.
type turn struct {
	state   string // the state with which the jobs were last woken
	every   time.Duration
	due     time.Time
	checked time.Time
	failed  bool // whether the last attempt failed
}

// run compares names until ctx ends or, unless during is 0, until that much time has passed.
func (p *poller) run(ctx context.Context, during time.Duration) error {
	begun := time.Now()
	p.turns, p.cycle = map[string]*turn{}, begun
	rounds := time.NewTicker(p.round)
	defer rounds.Stop()
	for refreshed := (time.Time{}); during == 0 || time.Since(begun) < during; {
		if time.Since(refreshed) >= refreshEvery {
			if err := p.refresh(ctx); err != nil {
				return err
			}
			refreshed = time.Now()
		}
		if err := p.next(ctx); err != nil {
			return err
		}
		select {
		case <-rounds.C:
		case <-p.hinted():
			if err := backoff.Sleep(ctx, hintsPause); err != nil {
				return err
			}
			p.hasten()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hinted returns a channel that has a value if there are hints.
func (p *poller) hinted() <-chan struct{} {
	if p.hints == nil {
		return nil
	}
	return p.hints.ready
}

// hasten takes the hints, and makes the names in them due at once.
func (p *poller) hasten() {
	names, all := p.hints.take()
	for name, t := range p.turns {
		if all || names[name] {
			t.due = time.Time{}
		}
	}
}

// refresh reloads the names. New names are due at once.
func (p *poller) refresh(ctx context.Context) error {
	states, err := p.watched.Jobs.States(ctx)
	if err != nil {
		return err
	}
	for name, state := range states {
		if t := p.turns[name]; t != nil {
			t.state = state
		} else {
			p.turns[name] = &turn{state: state}
		}
	}
	for name := range p.turns {
		if _, ok := states[name]; !ok {
			delete(p.turns, name)
		}
	}
	return nil
}

// next compares the names that are due, beginning with those that have been due longest.
func (p *poller) next(ctx context.Context) error {
	now := time.Now()
	var due []string
	for name, t := range p.turns {
		if !t.due.After(now) {
			due = append(due, name)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return p.turns[a].due.Compare(p.turns[b].due) })
	due = due[:min(len(due), p.most)]
	if len(due) > 0 {
		if err := p.check(ctx, due); err != nil {
			return err
		}
	}
	for _, t := range p.turns {
		if t.checked.Before(p.cycle) {
			return nil
		}
	}
	p.cycle = now
	p.watched.Jobs.Checked("")
	return nil
}

// check compares names and wakes the jobs of names that have changed.
func (p *poller) check(ctx context.Context, names []string) error {
	now := time.Now()
	before := make(map[string]string, len(names))
	for _, name := range names {
		before[name] = p.turns[name].state
	}
	found, err := p.compare(ctx, before)
	if err != nil && (ctx.Err() != nil || !p.works(ctx, before)) {
		return err
	}
	changed := map[string]string{}
	for name, state := range before {
		t := p.turns[name]
		now, ok := found[name]
		again := t.failed
		t.failed = !ok
		if !ok && !again { // the next attempt shows whether only this name fails
			delete(before, name)
			t.every, t.due = p.fastest, time.Now().Add(p.fastest)
		} else if now != state || state == "" {
			changed[name] = now
		}
	}
	if len(changed) > 0 {
		if err := p.watched.Jobs.Changed(ctx, changed); err != nil {
			return err
		}
	}
	for name := range before {
		t := p.turns[name]
		t.checked = now
		switch state, differs := changed[name]; {
		case differs && state != "":
			t.state, t.every = state, p.fastest
		case t.every == 0: // the name has not changed for a while
			t.every = p.slowest
		default:
			t.every = min(max(2*t.every, p.fastest), p.slowest)
		}
		// The random part spreads names that were due together at the start.
		t.due = now.Add(t.every - rand.N(t.every/8+1))
	}
	return nil
}

// works reports whether compare can get the state of any name that is not in except.
func (p *poller) works(ctx context.Context, except map[string]string) bool {
	for name, t := range p.turns {
		if _, ok := except[name]; !ok && !t.failed && !t.checked.IsZero() {
			_, err := p.compare(ctx, map[string]string{name: t.state})
			return err == nil
		}
	}
	return false
}

// compareEach calls state for each name, with up to atOnce calls at a time. It leaves out names with
// errors, and returns an error if no name is left.
func compareEach(ctx context.Context, states map[string]string, atOnce int, state func(ctx context.Context, name, before string) (string, error)) (map[string]string, error) {
	found := make(map[string]string, len(states))
	var mu sync.Mutex
	var last error
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		group.Go(func() error {
			now, err := state(ctx, name, states[name])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = err
			} else {
				found[name] = now
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if len(found) == 0 && last != nil {
		return nil, last
	}
	return found, nil
}
