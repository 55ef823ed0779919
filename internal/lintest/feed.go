package lintest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// A Reader reads a whole feed and returns its Content-IDs, in order.
type Reader interface {
	Read(ctx context.Context) ([]string, error)
}

// A FeedLoad is a load of concurrent producers and readers on one feed. Some producers are
// abandoned in the middle of a commit, and their successors publish the same entities again.
type FeedLoad struct {
	Seed       uint64
	Feed       string
	Publishers int
	Batches    int // of each publisher
	Config     producer.Config
	// Publish wraps the publisher; nil leaves it unchanged.
	Publish func(Publish) Publish
	// Settle makes all pending operations take effect.
	Settle func()
}

// Publish publishes entities.
type Publish func(ctx context.Context, entities ...*feed.Entity) (producer.Receipt, error)

// retries is the number of attempts at an operation that may fail because of faults.
const retries = 100

// Check has the publishers work on the given handles of one store, sharing them if there
// are fewer handles than publishers, while each of the readers reads the feed continuously. It returns an error
// unless publishers and readers all saw an append-only log.
func (l FeedLoad) Check(ctx context.Context, handles []storage.Store, readers []Reader) error {
	log := &feedLog{history: &history{}, byID: map[string]*publishing{}, turn: make(chan struct{})}
	published := make(chan struct{})
	errs := make([]error, l.Publishers+len(readers))
	var publishers, watchers sync.WaitGroup
	for n := range l.Publishers {
		p := &publisher{
			load: l, log: log, number: n, handles: handles,
			random: rand.New(rand.NewPCG(l.Seed, uint64(n))),
		}
		publishers.Go(func() { errs[n] = p.run(ctx) })
	}
	for n, r := range readers {
		watchers.Go(func() {
			for {
				_ = log.read(ctx, l.Publishers+n, r)
				select {
				case <-published:
					return
				case log.turn <- struct{}{}:
				default:
				}
			}
		})
	}
	publishers.Wait()
	close(published)
	watchers.Wait()
	if l.Settle != nil {
		l.Settle()
	}
	for n, r := range readers {
		errs[l.Publishers+n] = again(func() error { return log.read(ctx, l.Publishers+n, r) })
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return log.check()
}

func again(do func() error) (err error) {
	for range retries {
		if err = do(); err == nil {
			break
		}
	}
	return err
}

type publisher struct {
	load    FeedLoad
	log     *feedLog
	number  int
	handles []storage.Store
	random  *rand.Rand
	feed    *producer.Feed // nil if the last one was abandoned
}

func (p *publisher) run(ctx context.Context) error {
	for n := range p.load.Batches {
		var ids []string
		for k := range 1 + p.random.IntN(2)*p.random.IntN(12) {
			ids = append(ids, fmt.Sprintf("<%d.%d.%d@test>", p.number, n, k))
		}
		if p.random.IntN(2) == 0 {
			<-p.log.turn // so that fast stores are read as often as they are written
		}
		if err := again(func() error { return p.publish(ctx, ids) }); err != nil {
			return fmt.Errorf("publish %v: %w", ids, err)
		}
	}
	if p.feed != nil {
		return p.feed.Close()
	}
	return nil
}

// publish publishes a batch once. After an error the caller retries.
func (p *publisher) publish(ctx context.Context, ids []string) (err error) {
	if p.feed == nil {
		handle := p.handles[p.random.IntN(len(p.handles))]
		if p.feed, err = producer.Open(ctx, handle, p.load.Feed, p.load.Config); err != nil {
			return err
		}
	}
	publish := p.feed.Publish
	if p.load.Publish != nil {
		publish = p.load.Publish(publish)
	}
	var dying sync.WaitGroup
	if p.random.IntN(8) == 0 {
		dying.Go(p.feed.Abort)
	}
	err = p.log.publish(ctx, p.number, publish, ids)
	dying.Wait()
	if err != nil {
		p.feed.Abort()
		p.feed = nil
	}
	return err
}

type feedLog struct {
	history *history
	turn    chan struct{} // holds a value after each read

	mu        sync.Mutex
	publishes []*publishing // for each client, in the order of the entities
	byID      map[string]*publishing
	reads     []reading
}

// A publishing covers all attempts to publish one entity, from the call of the first attempt to the return of the
// acknowledged one.
type publishing struct {
	client           int
	id               string
	called, returned int64
}

type reading struct {
	client           int
	ids              []string
	called, returned int64
}

func (l *feedLog) publish(ctx context.Context, client int, publish Publish, ids []string) error {
	var entities []*feed.Entity
	for _, id := range ids {
		entities = append(entities, &feed.Entity{ContentID: id, Operation: feed.Put, ContentType: "text/plain", Body: []byte("body of " + id)})
	}
	called := l.history.time()
	_, err := publish(ctx, entities...)
	returned := l.history.time()
	if errors.Is(err, producer.ErrUnknown) {
		returned = never
	} else if err != nil {
		return err // nothing was published
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		p, ok := l.byID[id]
		if !ok {
			p = &publishing{client: client, id: id, called: called}
			l.byID[id] = p
			l.publishes = append(l.publishes, p)
		}
		p.returned = returned
	}
	return err
}

// read records the result of a read. Failed reads are ignored.
func (l *feedLog) read(ctx context.Context, client int, reader Reader) (err error) {
	r := reading{client: client, called: l.history.time()}
	if r.ids, err = reader.Read(ctx); err != nil {
		return err
	}
	r.returned = l.history.time()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads = append(l.reads, r)
	return nil
}

// check returns an error unless all reads agree on one order of the entities, and the reads and publications are
// linearizable. Nothing is pending when the last read begins, so it has seen the whole order.
func (l *feedLog) check() error {
	all := slices.MaxFunc(l.reads, func(a, b reading) int { return cmp.Compare(a.called, b.called) }).ids
	index := map[string]int{}
	for n, id := range all {
		if before, ok := index[id]; ok {
			return fmt.Errorf("%s is in the feed twice, at %d and %d", id, before, n)
		}
		if l.byID[id] == nil {
			return fmt.Errorf("%s is in the feed, but its publisher got an error that denies it", id)
		}
		index[id] = n
	}
	for _, r := range l.reads {
		if len(r.ids) > len(all) || !slices.Equal(r.ids, all[:len(r.ids)]) {
			return fmt.Errorf("client %d [%d, %d] read %v, but the feed is %v", r.client, r.called, r.returned, r.ids, all)
		}
		l.history.add(r.client, logCall{}, len(r.ids), r.called, r.returned)
	}
	last := map[int]int{} // for each client, the index of the entity that it published last
	for _, p := range l.publishes {
		n, ok := index[p.id]
		switch {
		case !ok && p.returned == never:
			continue
		case !ok:
			return fmt.Errorf("%s was acknowledged to client %d but is not in the feed: %v", p.id, p.client, all)
		case n < last[p.client]:
			return fmt.Errorf("%s comes before an entity that client %d published earlier: %v", p.id, p.client, all)
		}
		last[p.client] = n
		l.history.add(p.client, logCall{publish: true, index: n, id: p.id}, nil, p.called, p.returned)
	}
	return explain(logModel, l.history.operations)
}

type logCall struct {
	publish bool
	id      string
	index   int // of the entity in the log
}

// logModel is an append-only log. The final order of the entities is known, so the state is
// only the length. Publishing several entities is not one operation: readers may see only
// the first few.
var logModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		length, call := state.(int), input.(logCall)
		if !call.publish {
			return length == output.(int), length
		}
		return length == call.index, length + 1
	},
	DescribeOperation: func(input, output any) string {
		if call := input.(logCall); call.publish {
			return fmt.Sprintf("publish %s (%d)", call.id, call.index)
		}
		return fmt.Sprintf("read %d entities", output)
	},
}
