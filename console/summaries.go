package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/lru"
	"github.com/feedctl/feedctl/storage"
)

// Limits of summaries.
const (
	keepSummaries  = 10_000          // summaries that are kept, each of less than 1 KiB
	sparkTime      = 24 * time.Hour  // of a sparkline
	sparkSteps     = 48              //
	summaryAge     = 5 * time.Second // after which a summary is read again when it is requested
	summaryAgeFar  = time.Minute     // summaryAge for a remote store, where each request has a cost
	summaryTime    = 30 * time.Second
	summaryTasks   = 64 // feeds that are read at the same time
	summarySamples = 24 // pages of a feed that are read
	samplesFar     = 8  // summarySamples for a remote store
)

// A summary is what lists show of a feed.
type summary struct {
	Newest *chain.Page
	Floor  int64
	Total  amount
	Day    *series // what was published in the last sparkTime
	Err    error   // why the feed cannot be read; nothing else is set then
	at     time.Time
}

// summaries holds summaries of the feeds that were requested most recently.
type summaries struct {
	feeds      *feedstore.Reader
	far        bool // the store is remote
	now        func() time.Time
	background *background
	known      *lru.Cache[string, *summary]

	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the summary of the feed has been read
}

func newSummaries(c Config) *summaries {
	return &summaries{
		feeds: c.Feeds, far: storage.PropertiesOf(c.Store).Remote, now: c.Now, background: newBackground(summaryTasks),
		known: lru.New[string, *summary](keepSummaries), busy: make(map[string]chan struct{}),
	}
}

// of returns those summaries of the given feeds that are known. Summaries that are missing or old are read in the
// background; of waits for them for at most the given time.
func (s *summaries) of(ctx context.Context, names []string, wait time.Duration) map[string]*summary {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var reading []chan struct{}
	for _, name := range names {
		if done := s.refresh(name); done != nil {
			reading = append(reading, done)
		}
	}
waiting:
	for _, done := range reading {
		select {
		case <-done:
		case <-timer.C:
			break waiting
		case <-ctx.Done():
			break waiting
		}
	}
	known := make(map[string]*summary, len(names))
	for _, name := range names {
		if summary, ok := s.known.Get(name); ok {
			known[name] = summary
		}
	}
	return known
}

// refresh starts reading the summary of a feed, unless there is a recent one. The channel is closed when the summary
// has been read.
func (s *summaries) refresh(name string) chan struct{} {
	age := summaryAge
	if s.far {
		age = summaryAgeFar
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.busy[name]; done != nil {
		return done
	}
	if known, ok := s.known.Get(name); ok && s.now().Sub(known.at) < age {
		return nil
	}
	done := make(chan struct{})
	started := s.background.run(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, summaryTime)
		defer cancel()
		if read, err := s.read(ctx, name); err == nil {
			s.known.Remove(name, func(*summary) bool { return true })
			s.known.Add(name, read, 1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, name)
		close(done)
	})
	if !started {
		return nil
	}
	s.busy[name] = done
	return done
}

// read reads the summary of a feed. An error caused by the feed itself is part of the summary.
func (s *summaries) read(ctx context.Context, name string) (*summary, error) {
	now := s.now()
	read, err := s.summarize(ctx, name, now)
	if errors.Is(err, chain.ErrCorrupt) || errors.Is(err, storage.ErrLayout) || errors.Is(err, chain.ErrNoFeed) {
		return &summary{Err: err, at: now}, nil
	}
	return read, err
}

// summarize returns the summary of a feed at a time.
func (s *summaries) summarize(ctx context.Context, name string, now time.Time) (*summary, error) {
	samples := summarySamples
	if s.far {
		samples = samplesFar
	}
	f, newest, floor, err := s.feeds.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := readHistory(ctx, f, floor, newest, samples)
	if err != nil {
		return nil, err
	}
	result := &summary{Newest: lean(newest), Floor: floor, Total: all.total(), at: now}
	day := all
	if from := now.Add(-sparkTime); !all.exact() && newest.Last.After(from) {
		n, err := s.feeds.PageBefore(ctx, name, from)
		if err != nil {
			return nil, err
		}
		if day, err = readHistory(ctx, f, max(n, floor), newest, samples); err != nil {
			return nil, err
		}
	}
	result.Day = day.series(now.Add(-sparkTime), now, sparkSteps)
	return result, nil
}

// lean returns a copy of a page without the parts that may be large and that lists do not show.
func lean(p *chain.Page) *chain.Page {
	return &chain.Page{Feed: p.Feed, Number: p.Number, Entities: p.Entities, First: p.First, Last: p.Last, Closed: p.Closed, Size: p.Size}
}

// close ends reading.
func (s *summaries) close() { s.background.close() }
