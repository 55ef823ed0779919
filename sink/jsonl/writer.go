package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
)

// A Writer writes lines to a stream, such as standard output. It has no
// position, so after a crash entities may be written again: at least once. What
// is written by a batch stays written if the batch is rolled back. A line is
// written as a whole; to that end a body of more than 1 MiB goes through a
// temporary file first.
type Writer struct {
	encoder encoder
	open    bool
	broken  error // the stream may have ended within a line
}

// NewWriter returns a sink that writes to w. Each commit has written all lines
// of its batch to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{encoder: encoder{out: w}}
}

// Stdout returns the opener of the sink named "-", which writes to w.
func Stdout(w io.Writer) sink.Opener {
	return func(_ context.Context, s sink.Spec) (consumer.Sink, error) {
		if err := s.CheckParams(); err != nil {
			return nil, err
		}
		return NewWriter(w), nil
	}
}

// AtLeastOnce returns true.
func (w *Writer) AtLeastOnce() bool { return true }

// Position returns the zero position: a stream cannot keep one.
func (w *Writer) Position(context.Context) (feed.Position, error) {
	return feed.Position{}, w.broken
}

// Begin starts a batch.
func (w *Writer) Begin(context.Context) (consumer.Batch, error) {
	if w.broken != nil {
		return nil, w.broken
	}
	if w.open {
		return nil, errors.New("begin batch: the one before is still open")
	}
	w.open = true
	return &writerBatch{writer: w}, nil
}

// Close does not close the stream.
func (w *Writer) Close() error { return nil }

type writerBatch struct {
	writer *Writer
	done   bool
	err    error
}

func (b *writerBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.done {
		return errors.New("apply entity: the batch has ended")
	}
	if b.err != nil {
		return b.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.apply(e); err != nil {
		b.err = fmt.Errorf("write entity %q: %w", e.ContentID, err)
	}
	return b.err
}

func (b *writerBatch) apply(e *feed.Entity) error {
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
	written := b.writer.encoder.wrote
	err := b.writer.encoder.encode(e)
	if err != nil && b.writer.encoder.wrote > written {
		b.writer.broken = err
	}
	return err
}

func (b *writerBatch) Commit(context.Context, feed.Position) error {
	if b.done {
		return errors.New("commit batch: it has ended")
	}
	if b.err != nil {
		return fmt.Errorf("commit batch: an entity was not written: %w", b.err)
	}
	b.end()
	if err := b.writer.encoder.flush(); err != nil {
		b.writer.broken = fmt.Errorf("commit batch: %w", err)
	}
	return b.writer.broken
}

// Rollback drops the lines that were not written yet.
func (b *writerBatch) Rollback() error {
	if !b.done {
		b.end()
		b.writer.encoder.reset()
	}
	return nil
}

func (b *writerBatch) end() {
	b.done = true
	b.writer.open = false
}
