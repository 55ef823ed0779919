package console

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/storage/observe"
)

// requestMinutes is the number of past minutes whose requests are counted separately.
const requestMinutes = 60

// Requests counts the requests to a store. The zero value is ready to use, and the methods may be called
// concurrently.
type Requests struct {
	mu      sync.Mutex
	byName  map[string]*requestCount
	minutes [requestMinutes]minuteCount // by Unix minute
}

// A requestCount counts requests of one kind.
type requestCount struct{ All, Failed int64 }

type minuteCount struct {
	minute int64
	requestCount
}

// Observe counts a request. It can be passed to [observe.Wrap].
func (q *Requests) Observe(_ context.Context, o observe.Operation) {
	q.count(o.Name, o.Failed(), time.Now())
}

func (q *Requests) count(name string, failed bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byName == nil {
		q.byName = make(map[string]*requestCount)
	}
	if q.byName[name] == nil {
		q.byName[name] = new(requestCount)
	}
	minute := now.Unix() / 60
	slot := &q.minutes[minute%requestMinutes]
	if slot.minute != minute {
		*slot = minuteCount{minute: minute}
	}
	for _, c := range []*requestCount{q.byName[name], &slot.requestCount} {
		c.All++
		if failed {
			c.Failed++
		}
	}
}

// A requestsView is what the overview shows of the requests to a store.
type requestsView struct {
	Kinds []requestKind
	Hour  requestCount // in the last hour
	Path  string       // of a sparkline of the last hour
}

// A requestKind says how many requests of one kind there were.
type requestKind struct {
	Name string
	requestCount
}

// view returns the counts.
func (q *Requests) view(now time.Time) *requestsView {
	q.mu.Lock()
	defer q.mu.Unlock()
	v := new(requestsView)
	for _, name := range slices.Sorted(maps.Keys(q.byName)) {
		v.Kinds = append(v.Kinds, requestKind{name, *q.byName[name]})
	}
	steps := make([]float64, requestMinutes)
	for i := range steps {
		minute := now.Unix()/60 - requestMinutes + 1 + int64(i)
		if slot := q.minutes[minute%requestMinutes]; slot.minute == minute {
			steps[i] = float64(slot.All)
			v.Hour.All += slot.All
			v.Hour.Failed += slot.Failed
		}
	}
	v.Path = spark(steps)
	return v
}
