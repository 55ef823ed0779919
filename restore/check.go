package restore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// A Target is a sink that can be read; the zero Target is for a sink that cannot.
type Target struct {
	// Open opens the rows of the sink.
	Open func(ctx context.Context) (Contents, error)
	// Documents, if not nil, is the database that the sink wrote to; it is set if the feed is from "feedctl
	// bridge couchdb --revs". The leaf revisions of its documents are then the rows, and Open is not used.
	Documents Documents
}

// Contents holds the rows of a sink. About must say that they are in the order of the bytes of their
// keys.
type Contents interface {
	About() sink.About
	Rows(ctx context.Context, from, to string) iter.Seq2[sink.Row, error]
	Close() error
}

// Documents reads the leaf revisions of a database, in any order.
type Documents interface {
	Leaves(ctx context.Context, use func(*Leaf) error) error
}

// A Checked is the result of [Check].
type Checked struct {
	Keys int64 `json:"keys"` // of the feed, or leaf revisions
	// Differences holds at most a hundred; Omitted counts the others.
	Differences []Difference `json:"differences"`
	Omitted     int64        `json:"omitted,omitempty"`
	// KeysOnly counts the keys whose rows have neither the body as it was published nor a
	// Content-ID, so only their existence was compared.
	KeysOnly int64 `json:"keysOnly,omitempty"`
}

// Count returns the number of differences.
func (c *Checked) Count() int64 { return int64(len(c.Differences)) + c.Omitted }

// A Difference is a key for which the sink differs from the feed.
type Difference struct {
	Key string `json:"key"`
	// Kind is "missing" if only the feed has the key, "extra" if only the sink has it, or else
	// "different".
	Kind string `json:"kind"`
}

const maxDifferences = 100

func (c *Checked) add(key, kind string) {
	if len(c.Differences) == maxDifferences {
		c.Omitted++
		return
	}
	c.Differences = append(c.Differences, Difference{key, kind})
}

// ErrUnreadable means that a sink cannot be compared with the feed.
var ErrUnreadable = errors.New("what the sink has cannot be compared with the feed")

// Check compares what a sink has with the state of the feed at c.At. It reads this state again, independently
// of [Run], from a snapshot and the feed into a temporary file as large as the state. The error matches
// [ErrUnreadable] if the sink cannot be compared.
func Check(ctx context.Context, c Config, t Target) (_ *Checked, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("check what was restored: %w", err)
		}
	}()
	if t.Open == nil && t.Documents == nil {
		return nil, ErrUnreadable
	}
	if t.Documents == nil {
		if err := checkOrder(ctx, t.Open); err != nil {
			return nil, err
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger.InfoContext(ctx, "comparing the sink with the feed, which is read again")
	dir, err := os.MkdirTemp("", "feedctl-restore-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	want := filepath.Join(dir, "feed.db")
	if err := c.rebuild(ctx, want, t.Documents != nil); err != nil {
		return nil, err
	}
	if t.Documents != nil {
		got := filepath.Join(dir, "documents.db")
		if err := writeLeaves(ctx, got, t.Documents); err != nil {
			return nil, err
		}
		t.Open = func(ctx context.Context) (Contents, error) { return openTable(ctx, got) }
	}
	return compare(ctx, want, t.Open)
}

// checkOrder returns an error if the rows of a sink are not in order.
func checkOrder(ctx context.Context, open func(context.Context) (Contents, error)) error {
	rows, err := open(ctx)
	if err != nil {
		return err
	}
	if !rows.About().Ordered {
		err = fmt.Errorf("%w: its rows are not in the order of their keys", ErrUnreadable)
	}
	return errors.Join(err, rows.Close())
}

// table is the name of the table in temporary files.
const table = "state"

func openTable(ctx context.Context, file string) (Contents, error) {
	return sqlite.OpenContents(ctx, sink.Spec{Scheme: "sqlite", Path: file, Params: url.Values{"table": {table}}})
}

// rebuild writes the state of the feed at c.At to a table, with a row for each key or, with leaves, for
// each leaf revision.
func (c *Config) rebuild(ctx context.Context, file string, leaves bool) (err error) {
	from, err := c.start(ctx, &Report{})
	if err != nil {
		return err
	}
	to, err := sqlite.OpenTemporary(ctx, file, table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	job := consumer.Job{Client: c.Client, URL: c.URL, Feed: c.Feed, Sink: to, From: from, Until: c.At, KeyPointer: c.KeyPointer, Logger: c.Logger}
	if leaves {
		job.Sink = &leafSink{to}
	}
	_, err = job.Run(ctx)
	return err
}

// compare compares a table with the rows of a sink.
func compare(ctx context.Context, file string, open func(context.Context) (Contents, error)) (_ *Checked, err error) {
	want, err := openTable(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, want.Close()) }()
	got, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	nextWant, stopWant := iter.Pull2(want.Rows(ctx, "", ""))
	defer stopWant()
	nextGot, stopGot := iter.Pull2(got.Rows(ctx, "", ""))
	defer stopGot()
	checked := &Checked{Differences: []Difference{}}
	w, wErr, more := nextWant()
	g, gErr, others := nextGot()
	for more || others {
		if err := errors.Join(wErr, gErr); err != nil {
			return nil, err
		}
		if more && (!others || w.Key <= g.Key) {
			checked.Keys++
		}
		switch {
		case !others || more && w.Key < g.Key:
			checked.add(w.Key, "missing")
		case !more || g.Key < w.Key:
			checked.add(g.Key, "extra")
		default:
			checked.pair(w, g)
		}
		step := w.Key
		if !more || others && g.Key < step {
			step = g.Key
		}
		ahead := others && g.Key == step
		if more && w.Key == step {
			w, wErr, more = nextWant()
		}
		if ahead {
			g, gErr, others = nextGot()
		}
	}
	return checked, nil
}

// pair compares the rows of a key.
func (c *Checked) pair(want, got sink.Row) {
	var none digest.Sum
	switch {
	case got.Sum != none && got.Sum != want.Sum, got.Sum == none && got.ContentID != "" && got.ContentID != want.ContentID:
		c.add(want.Key, "different")
	case got.Sum == none && got.ContentID == "":
		c.KeysOnly++
	}
}
