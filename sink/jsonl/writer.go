package jsonl

import (
	"context"
	"io"
	"math"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// Stdout returns the opener of the sink named "-", which writes to w as [NewWriter]
// does.
func Stdout(w io.Writer) sink.Opener {
	return func(_ context.Context, s sink.Spec) (consumer.Sink, error) {
		if err := s.CheckParams(); err != nil {
			return nil, err
		}
		return NewWriter(w), nil
	}
}

// NewWriter returns a sink that writes lines to a stream, such as standard
// output. Commit returns after all lines of the batch have been written to w. The
// sink keeps its position in memory only, so after a crash entities may be written
// again: delivery is at least once, as [consumer.AtLeastOnce] reports. Lines already
// written remain if a batch is rolled back. Lines are written whole, so a body of
// more than 1 MiB goes through a temporary file first.
func NewWriter(w io.Writer) consumer.Sink {
	s, _ := session.Open(context.Background(), "-", &stream{encoder: encoder{out: w}}) // a new stream has no error to recover from
	return writer{s}
}

type writer struct{ *session.Sink }

func (writer) AtLeastOnce() bool { return true }

// A stream is a target that cannot roll back.
type stream struct {
	encoder    encoder
	incomplete error // why the stream ends within a line
}

func (t *stream) Recover(context.Context) (feed.Position, error) {
	return feed.Position{}, t.incomplete
}
func (t *stream) Close() error { return nil }

func (t *stream) Begin(context.Context) error {
	t.encoder.reset()
	return t.incomplete
}

func (t *stream) Apply(_ context.Context, e *feed.Entity) error {
	if e.Stream != nil && (e.Size < 0 || e.Size > sink.MaxInline) {
		file, size, err := content.Spool("", e.Stream, math.MaxInt64-1)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := content.CheckSize(e.Size, size); err != nil {
			return err
		}
		spooled := *e
		spooled.Stream, spooled.Size = file, size
		e = &spooled
	}
	written := t.encoder.wrote
	err := t.encoder.encode(e)
	if err != nil && t.encoder.wrote > written {
		t.incomplete = err
	}
	return err
}

func (t *stream) Commit(context.Context, feed.Position) error {
	t.incomplete = t.encoder.flush()
	return t.incomplete
}

// Rollback discards the lines that were not written yet.
func (t *stream) Rollback(context.Context) error {
	t.encoder.reset()
	return nil
}
