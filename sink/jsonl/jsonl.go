// Package jsonl is a sink that appends each entity as a line of JSON to a file
// or a stream.
//
// A line is an object with these members:
//
//	key            string; keyBase64 instead if the key is not UTF-8
//	operation      "PUT", "PATCH" or "DELETE"; "PUT" in snapshots
//	contentId     string; "" if there is none, as in snapshots
//	lastModified  RFC 3339 in UTC with whole seconds
//	contentType   string
//	headers        object: the name of each other header field to the array of its values
//	body           the body, if it is JSON or text
//	bodyBase64    any other body, in base64 (RFC 4648, section 4)
//
// For an empty body, the line has neither of the last two members. A body is JSON if it is valid and its
// content type is application/json or ends in +json; it is embedded without the white space between its
// tokens. A body is text if it is valid UTF-8 and its content type is text/* or XML; it is written as a
// string. A body of more than 1 MiB is always in base64, so that it is written in constant memory.
//
// # Exactly once
//
// The sink that [Open] returns keeps its position in a second file, FILE.position: the number of bytes of
// FILE that are committed, and the position in the feed. A commit writes the lines, syncs FILE, and then
// replaces FILE.position atomically. Bytes after the committed ones, which a crash may leave, are removed
// when the file is opened again. So readers should either read a file that no consumer has open, or read only
// up to the length in FILE.position.
package jsonl

import (
	"context"
	"fmt"
	"os"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/durable"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// FromSpec opens a sink named jsonl:FILE; it is a [sink.Opener].
func FromSpec(_ context.Context, s sink.Spec) (consumer.Sink, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	return Open(s.Path)
}

// Open opens the file. It creates the file if it does not exist. It returns an error
// if the file does not match its position file, and [sink.ErrLocked] if another
// consumer has it open.
func Open(path string) (consumer.Sink, error) { return open(path, durable.FS{}) }

func open(path string, fs durable.FS) (consumer.Sink, error) {
	name := "jsonl:" + path
	if err := sink.CheckParent(path); err != nil {
		return nil, fmt.Errorf("open sink %s: %w", name, err)
	}
	if err := durable.CheckDirs(); err != nil {
		return nil, fmt.Errorf("open sink %s: %w", name, err)
	}
	file, err := fs.Open(path, os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open sink %s: %w", name, err)
	}
	if err := file.Lock(); err != nil {
		file.Close()
		return nil, fmt.Errorf("open sink %s: %w", name, err)
	}
	return session.Open(context.Background(), name, &target{path: path, fs: fs, file: file, encoder: encoder{out: file}})
}

// A target writes a file of lines and its position.
type target struct {
	path      string
	fs        durable.FS
	file      *durable.File // between batches, its offset is its end
	committed record
	encoder   encoder
}

func (t *target) Begin(context.Context) error {
	t.encoder.reset()
	return nil
}

func (t *target) Apply(_ context.Context, e *feed.Entity) error { return t.encoder.encode(e) }

func (t *target) Commit(_ context.Context, at feed.Position) error {
	if err := t.encoder.flush(); err != nil {
		return err
	}
	if t.encoder.wrote > 0 {
		if err := t.file.Sync(); err != nil {
			return err
		}
	}
	next := record{Length: t.committed.Length + t.encoder.wrote, Position: at}
	if err := t.writeRecord(next); err != nil {
		return err
	}
	t.committed = next
	return nil
}

func (t *target) Rollback(context.Context) error {
	if t.encoder.wrote == 0 {
		return nil
	}
	return t.cutBack()
}

func (t *target) Close() error { return t.file.Close() }
