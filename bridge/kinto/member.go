package kinto

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/feedctl/feedctl/bridge"
)

// A Collected says what a [Bucket] has done for a collection.
type Collected struct {
	Collection, Feed string
	bridge.Progress
	// Err is the error of the last run, if it failed.
	Err error
}

// A member is a collection of a bucket that is published.
type member struct {
	Collected      // Progress is that of the jobs that have ended
	job       *Job // that is running, or nil
	gone      bool // it did not exist when it was last read, and has not been listed since
}

// progress returns the progress of all jobs.
func (m *member) progress() bridge.Progress {
	if m.job == nil {
		return m.Progress
	}
	return m.job.Progress().After(m.Progress)
}

// begin records collections, and returns those to be read, which are neither being read nor gone.
func (b *Bucket) begin(listed, published []string) (due []*member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.members == nil {
		b.members = map[string]*member{}
	}
	for _, name := range slices.Concat(listed, published) {
		if b.members[name] == nil {
			b.members[name] = &member{Collected: Collected{Collection: name, Feed: b.Feeds.Feed(name), Progress: bridge.Progress{Pending: -1}}}
		}
	}
	for _, name := range listed {
		b.members[name].gone = false
	}
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		if m := b.members[name]; m.job == nil && !m.gone {
			m.job = b.Job(name, m.Feed)
			due = append(due, m)
		}
	}
	return due
}

// publish runs the job of a collection.
func (b *Bucket) publish(ctx context.Context, m *member) error {
	c := &m.job.Config
	c.Source, c.Store, c.Feed, c.Follow = b.Server.Collection(b.Bucket, m.Collection), b.Store, m.Feed, b.Follow
	_, err := m.job.Run(ctx)
	b.ended(ctx, m, err)
	return err
}

// ended records the result of the job of a collection.
func (b *Bucket) ended(ctx context.Context, m *member, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.Progress, m.job = m.progress(), nil
	if ctx.Err() == nil {
		m.Err, m.gone = err, errors.Is(err, ErrGone)
	}
}

// following reports whether a collection is being read.
func (b *Bucket) following() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.members {
		if m.job != nil {
			return true
		}
	}
	return false
}

// Progress returns the progress of all collections together. It may be called while Run runs.
func (b *Bucket) Progress() bridge.Progress {
	total := bridge.Progress{Pending: -1}
	for _, c := range b.Collected() {
		poll, publish := total.LastPoll, total.LastPublish
		total = total.After(c.Progress)
		total.LastPoll, total.LastPublish = later(poll, c.LastPoll), later(publish, c.LastPublish)
	}
	total.Since, total.Newest = "", "" // each collection has its own
	return total
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Collected returns what has been done for each collection, in the order of their names. It may be
// called while Run runs.
func (b *Bucket) Collected() (all []Collected) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.members {
		c := m.Collected
		c.Progress = m.progress()
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Collected) int { return cmp.Compare(a.Collection, b.Collection) })
	return all
}
