// Package jsonl is a sink that appends each entity as a line of JSON to a file
// or a stream.
//
// A line is an object with these members:
//
//	key            string; key_base64 instead if the key is not UTF-8
//	operation      "PUT", "PATCH" or "DELETE"; "PUT" in snapshots
//	content_id     string; "" if there is none, as in snapshots
//	last_modified  RFC 3339 in UTC with whole seconds
//	content_type   string
//	headers        object: the name of each other header field to the array of its values
//	body           the body, if it is JSON or text
//	body_base64    any other body, in base64 (RFC 4648, section 4)
//
// A body that is empty has neither of the last two. A body is JSON if its
// content type is application/json or ends in +json, and it is valid; it is
// embedded as it stands, only without white space between its tokens. It is text
// if its content type is text/* or XML and it is UTF-8; it becomes a string. A
// body of more than 1 MiB is always in base64: it is copied through in constant
// memory, however large it is.
//
// # Exactly once
//
// [Open] gives a [Sink] that keeps its position in a second file, FILE.position:
// the number of bytes of FILE that are committed, and the position in the feed.
// A commit writes the lines, syncs FILE, and then replaces FILE.position
// atomically. What a crash leaves behind the committed bytes is cut off when the
// file is opened again. So readers should either read a file that no consumer
// has open, or only as far as FILE.position says.
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/durable"
)

// A Sink is a file of lines with its position.
type Sink struct {
	path      string
	fs        durable.FS
	file      *durable.File // its offset is committed.Length unless a batch is open
	committed record
	encoder   encoder
	open      bool  // a batch is open
	broken    error // what went wrong since the disk was last looked at
}

// FromSpec opens a sink named jsonl:FILE; it is a [sink.Opener].
func FromSpec(_ context.Context, s sink.Spec) (consumer.Sink, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	return Open(s.Path)
}

// Open opens the file, which is created if it does not exist. It is refused
// with [sink.ErrLocked] if another consumer has it open, and with an error that
// says what to do if it does not fit its position file.
func Open(path string) (*Sink, error) { return open(path, durable.FS{}) }

func open(path string, fs durable.FS) (_ *Sink, err error) {
	s := &Sink{path: path, fs: fs}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open sink jsonl:%s: %w", path, err)
			if s.file != nil {
				s.file.Close()
			}
		}
	}()
	if s.file, err = fs.Open(path, os.O_CREATE); err != nil {
		return nil, err
	}
	if err := s.file.Lock(); err != nil {
		return nil, err
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	s.encoder.out = s.file
	return s, nil
}

// Position returns the position of the last commit. After a commit that went
// wrong it looks on the disk, as [Open] does.
func (s *Sink) Position(context.Context) (feed.Position, error) {
	if s.broken != nil {
		if err := s.recover(); err != nil {
			return feed.Position{}, fmt.Errorf("recover %s: %w", s.path, err)
		}
		s.broken = nil
	}
	return s.committed.Position, nil
}

// Begin starts a batch.
func (s *Sink) Begin(context.Context) (consumer.Batch, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	if s.open {
		return nil, errors.New("begin batch: the one before is still open")
	}
	s.open = true
	s.encoder.reset()
	return &batch{sink: s}, nil
}

// Close closes the file.
func (s *Sink) Close() error { return s.file.Close() }

type batch struct {
	sink *Sink
	done bool
	err  error // of an entity that was not applied
}

func (b *batch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.done {
		return errors.New("apply entity: the batch has ended")
	}
	if b.err != nil {
		return b.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.sink.encoder.encode(e); err != nil {
		b.err = fmt.Errorf("apply entity %q to %s: %w", e.ContentID, b.sink.path, err)
	}
	return b.err
}

func (b *batch) Commit(_ context.Context, at feed.Position) error {
	if b.done {
		return errors.New("commit batch: it has ended")
	}
	if b.err != nil {
		return fmt.Errorf("commit batch: an entity was not applied: %w", b.err)
	}
	if err := b.commit(at); err != nil {
		// Whether the position was written is not known.
		b.sink.broken = fmt.Errorf("commit to %s: %w", b.sink.path, err)
		b.end()
		return b.sink.broken
	}
	b.end()
	return nil
}

func (b *batch) commit(at feed.Position) error {
	s := b.sink
	if err := s.encoder.flush(); err != nil {
		return err
	}
	if s.encoder.wrote > 0 {
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	next := record{Length: s.committed.Length + s.encoder.wrote, Position: at}
	if err := s.writeRecord(next); err != nil {
		return err
	}
	s.committed = next
	return nil
}

func (b *batch) Rollback() error {
	if b.done {
		return nil
	}
	b.end()
	if b.sink.encoder.wrote == 0 {
		return nil
	}
	if err := b.sink.cutBack(); err != nil {
		b.sink.broken = fmt.Errorf("roll back %s: %w", b.sink.path, err)
		return b.sink.broken
	}
	return nil
}

func (b *batch) end() {
	b.done = true
	b.sink.open = false
}
