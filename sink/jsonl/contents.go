package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/sink"
)

// Contents holds the committed lines of a file, and the position of its consumer. The caller must
// close it.
type Contents struct {
	path string
	file *os.File
	at   record
}

// OpenContents opens, for reading, the file that s names. A consumer may have the file open: what the
// consumer appends meanwhile is not read.
func OpenContents(_ context.Context, s sink.Spec) (*Contents, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	c := &Contents{path: s.Path}
	var err error
	if c.at, err = readRecord(s.Path); err == nil {
		c.file, err = regular.Open(s.Path, os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w", s.String(), err)
	}
	return c, nil
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.at.Position }

// Close closes the file.
func (c *Contents) Close() error { return c.file.Close() }

// Entities yields what each line says about its entity, in order: the Content-ID and the time.
func (c *Contents) Entities(ctx context.Context) iter.Seq2[sink.Logged, error] {
	return func(yield func(sink.Logged, error) bool) {
		err := c.each(ctx, func(e sink.Logged) bool { return yield(e, nil) })
		if err != nil && !errors.Is(err, errStop) {
			yield(sink.Logged{}, fmt.Errorf("read sink jsonl:%s: %w", c.path, err))
		}
	}
}

var errStop = errors.New("stop")

// maxLine limits the part of a line that is held in memory. The members that are read come before the
// body.
const maxLine = 256 << 10

func (c *Contents) each(ctx context.Context, use func(sink.Logged) bool) error {
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.LimitReader(c.file, c.at.Length), maxLine)
	for n := 1; ; n++ {
		start, long, err := r.ReadLine()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := parseLogged(start)
		switch {
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !use(e):
			return errStop
		}
		for ; long && err == nil; _, long, err = r.ReadLine() {
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
}

// parseLogged reads the members before the body from the start of a line.
func parseLogged(start []byte) (e sink.Logged, err error) {
	d := json.NewDecoder(bytes.NewReader(start))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return e, errors.New("it is not a JSON object")
	}
	for have := 0; have < 2 && d.More(); {
		name, err := d.Token()
		if err != nil {
			return e, err
		}
		switch name {
		case "contentId", "content_id":
			err = d.Decode(&e.ContentID)
			have++
		case "lastModified", "last_modified":
			var t *time.Time
			if err = d.Decode(&t); t != nil {
				e.LastModified = *t
			}
			have++
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}
