// Package sinktest is the contract of [consumer.Sink] as a test suite: it compares
// the contents of a sink with a model after commits, rollbacks, failing streams, disk faults, and
// kills of its process at any point.
package sinktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// Options describe how to open the sink under test and how to read its contents.
type Options struct {
	// Open opens the sink that belongs to a directory. For the same directory, it must always open
	// the same sink.
	Open func(ctx context.Context, dir string) (consumer.Sink, error)
	// Read returns the contents of the sink in the directory: all records of a log, in order, or
	// one record for each key, in any order. It is called only while the sink is not open.
	Read func(dir string) ([]Record, error)
	// Log means that the sink keeps every entity instead of the state of each
	// key.
	Log bool
	// Keeps, if set, returns the part of a record that a sink for custom tables stores. In that
	// case, odd and large bodies are not tested.
	Keeps func(Record) Record
	// OpenFaulty, if set, opens the sink as Open does. The sink calls the given function before
	// each step that changes the disk, and skips the step if the function returns an error.
	OpenFaulty func(ctx context.Context, dir string, before func() error) (consumer.Sink, error)
	// Every is the distance between the steps that are made to fail; 0 means all steps. Set it for
	// a slow server if every step is tested with a fake.
	Every int
	// Kills is the number of processes to kill at random; 0 means 40. With -short, a tenth of them
	// are killed.
	Kills int
}

// A Record is an entity as a sink holds it.
type Record struct {
	Key          string
	Operation    feed.Operation // only of a log
	ContentType  string
	ContentID    string
	LastModified time.Time
	Header       map[string][]string
	Body         []byte
}

// Run runs the suite, with several sinks at a time. It runs the test binary again as a child
// process, with the name of the calling test. That test must do nothing else before it calls Run.
func Run(t *testing.T, o Options) {
	s := suite{o}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Commit", s.commit},
		{"Rollback", s.rollback},
		{"Order", s.order},
		{"Delete", s.delete},
		{"Patch", s.patch},
		{"PatchErrors", s.patchErrors},
		{"NoKey", s.noKey},
		{"Snapshot", s.snapshot},
		{"Bodies", s.bodies},
		{"Streams", s.streams},
		{"FailingStreams", s.failingStreams},
		{"Cancelled", s.cancelled},
		{"CommitAfterEnd", s.commitAfterEnd},
		{"Damaged", s.damaged},
		{"Locked", s.locked},
		{"Recall", s.recall},
		{"Held", s.held},
		{"NewestFirst", s.newestFirst},
		{"Replace", s.replace},
		{"ReplaceAgain", s.replaceAgain},
		{"ReplaceFaults", s.replaceFaults},
		{"KillReplace", s.killReplace},
		{"Model", s.model},
		{"Faults", s.faults},
		{"KillAtSteps", s.killAtSteps},
		{"KillAtRandom", s.killAtRandom},
		{"KillNewestFirst", s.killNewestFirst},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name != "Streams" { // Streams measures the memory of the process
				t.Parallel()
			}
			test.run(t)
		})
	}
}

type suite struct{ Options }

// needsWhole skips a test that needs whole entities if the sink is for custom tables.
func (s suite) needsWhole(t *testing.T) {
	t.Helper()
	if s.Keeps != nil {
		t.Skip("the user decides how bodies are stored")
	}
}

func (s suite) open(t *testing.T, dir string) consumer.Sink {
	t.Helper()
	opened, err := s.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

func begin(t *testing.T, k consumer.Sink) consumer.Batch {
	t.Helper()
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func apply(t *testing.T, b consumer.Batch, entities ...*feed.Entity) {
	t.Helper()
	for _, e := range entities {
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func commit(t *testing.T, b consumer.Batch, at feed.Position) {
	t.Helper()
	if err := b.Commit(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if err := b.Rollback(t.Context()); err != nil {
		t.Fatalf("roll back after the commit: %v", err)
	}
}

func rollback(t *testing.T, b consumer.Batch) {
	t.Helper()
	if err := b.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func closeSink(t *testing.T, k consumer.Sink) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

// filled commits entities to a sink in a new directory, and returns the directory.
func (s suite) filled(t *testing.T, entities ...*feed.Entity) (dir string) {
	t.Helper()
	dir = t.TempDir()
	k := s.open(t, dir)
	b := begin(t, k)
	apply(t, b, entities...)
	commit(t, b, at(1))
	closeSink(t, k)
	return dir
}

// at returns a position with all fields set.
func at(n int) feed.Position {
	return feed.Position{
		LastModified: stamp(n),
		ContentID:    contentID(n),
		Page:         "https://example.com/feeds/a/pages/1",
		Prev:         strings.Repeat("5a", 32),
		Identity:     strings.Repeat("1d", 16),
		Epoch:        strings.Repeat("e0", 16),
	}
}

func snapshotPosition() feed.Position {
	return feed.Position{Snapshot: &feed.SnapshotPosition{Index: "https://example.com/snapshots/a/1", Page: 3, Entities: 17}}
}
