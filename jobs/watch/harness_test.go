package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs/watch"
)

// waiting implements [watch.Jobs] with one job for each name, and counts how often each job is woken.
type waiting struct {
	mu       sync.Mutex
	states   map[string]string
	woken    map[string]int
	total    map[string]int // like woken, but since the start
	changed  chan struct{}  // holds a value after a wake
	again    chan struct{}  // holds a value after a confirmation
	position string
	checked  int
	fails    error

	credential string // of the server
}

// numbered returns n names that consist of the prefix and a number.
func numbered(prefix string, n int) (names []string) {
	for n := range n {
		names = append(names, fmt.Sprintf("%s%03d", prefix, n))
	}
	return names
}

func waitFor(names ...string) *waiting {
	j := &waiting{states: map[string]string{}, woken: map[string]int{}, total: map[string]int{}, changed: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	for _, name := range names {
		j.states[name] = ""
	}
	return j
}

func (j *waiting) States(context.Context) (map[string]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.states), j.fails
}

func (j *waiting) Changed(_ context.Context, states map[string]string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fails != nil {
		return j.fails
	}
	for name, state := range states {
		if before, ok := j.states[name]; ok && (state == "" || state != before) {
			j.states[name] = state
			j.woken[name]++
			j.total[name]++
		}
	}
	if len(j.woken) > 0 {
		select {
		case j.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (j *waiting) Checked(position string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.position = position
	j.checked++
	select {
	case j.again <- struct{}{}:
	default:
	}
}

// take returns the names whose jobs were woken since the last call.
func (j *waiting) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	names := slices.Sorted(maps.Keys(j.woken))
	clear(j.woken)
	return strings.Join(names, " ")
}

// wakings returns how many times the job that waits for a name has been woken.
func (j *waiting) wakings(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total[name]
}

// confirmed returns how many times the source has called Checked since the last call of confirmed.
func (j *waiting) confirmed() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.checked
	j.checked = 0
	return n
}

// nearEnd returns a channel that receives a value shortly before the time limit of the tests.
func nearEnd(t *testing.T) <-chan time.Time {
	end, ok := t.Deadline()
	if !ok {
		return nil
	}
	return time.After(time.Until(end) - 10*time.Second)
}

// wakes waits until the job that waits for a name is woken.
func (j *waiting) wakes(t *testing.T, name string) {
	t.Helper()
	for limit := nearEnd(t); ; {
		j.mu.Lock()
		woken := j.woken[name] > 0
		delete(j.woken, name)
		j.mu.Unlock()
		if woken {
			return
		}
		select {
		case <-j.changed:
		case <-limit:
			t.Fatalf("job of %s was not woken", name)
		}
	}
}

// watching runs a source as a node does, until stop is called or the test ends.
func (j *waiting) watching(t *testing.T, source watch.Source, server string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			j.mu.Lock()
			w := &watch.Watched{Server: server, Credential: j.credential, Position: j.position, Jobs: j, Logger: slog.New(slog.DiscardHandler)}
			j.mu.Unlock()
			err := source.Watch(ctx, w)
			if ctx.Err() == nil {
				t.Logf("watch ended: %v", err)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}
