package dir

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/sink"
)

// ErrChanged means that a consumer wrote to a directory while it was being read.
var ErrChanged = errors.New("the directory was written to while it was read: try again when its consumer is idle; after a crash, run the consumer first")

// Contents holds the files of a directory, and the position of its consumer.
type Contents struct {
	target target
	head   head
	sum    digest.Summer
}

// OpenContents opens, for reading, the directory that s names. A consumer may have the directory open, and is
// not delayed; but if it writes while the files are being read, reading fails with [ErrChanged].
func OpenContents(_ context.Context, s sink.Spec) (*Contents, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	c := &Contents{target: target{path: s.Path}}
	var err error
	if c.head, err = c.target.readRecord(nil); err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w", s.String(), err)
	}
	return c, nil
}

// check returns an error unless the files are those of the head.
func (c *Contents) check() error {
	if _, err := os.Stat(c.target.stage(c.head.Batch)); err == nil {
		return ErrChanged // files are still being moved
	}
	now, err := c.target.readRecord(nil)
	if err == nil && now.Batch != c.head.Batch {
		err = ErrChanged
	}
	return err
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.head.Position }

// About describes the files.
func (c *Contents) About() sink.About {
	return sink.About{Whole: true, Remarks: []string{"files whose names are not those of keys are ignored"}}
}

// Close does nothing.
func (c *Contents) Close() error { return nil }

// names is how many names of files are read at a time.
const names = 1000

// Rows ignores the range and yields a row for each file, in no particular order.
func (c *Contents) Rows(ctx context.Context, _, _ string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		err := c.each(ctx, func(row sink.Row) bool { return yield(row, nil) })
		if err != nil && !errors.Is(err, errStop) {
			yield(sink.Row{}, fmt.Errorf("read sink dir:%s: %w", c.target.path, err))
		}
	}
}

var errStop = errors.New("stop")

func (c *Contents) each(ctx context.Context, use func(sink.Row) bool) error {
	list, err := os.Open(c.target.path)
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(names)
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			row, err := c.target.row(e.Name(), &c.sum)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoKey):
				continue // it was removed, which check notices, or is not the sink's
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !use(row):
				return errStop
			}
		}
		if err == io.EOF {
			return c.check()
		}
		if err != nil {
			return err
		}
	}
}

// errNoKey means that a file does not have the name of a key.
var errNoKey = errors.New("it is not the file of a key")

// row returns the row of a file.
func (t *target) row(name string, sum *digest.Summer) (row sink.Row, err error) {
	if name == control {
		return row, errNoKey
	}
	var meta struct {
		Key         *string `json:"key"`
		KeyBase64   string  `json:"keyBase64"`
		ContentID   string  `json:"contentId"`
		ContentType string  `json:"contentType"`
		Earlier     string  `json:"content_type"` // the name in files of earlier versions
		EarlierID   string  `json:"content_id"`
	}
	data, err := regular.ReadFile(t.metaFile(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return row, err
	}
	if err == nil { // otherwise it was not written by the sink
		if err := json.Unmarshal(data, &meta); err != nil {
			return row, fmt.Errorf("read %s: %w", t.metaFile(name), err)
		}
	}
	key, err := base64.StdEncoding.DecodeString(meta.KeyBase64)
	if err != nil {
		return row, fmt.Errorf("read %s: key: %w", t.metaFile(name), err)
	}
	switch row.Key = string(key); {
	case meta.Key != nil:
		row.Key = *meta.Key
	case meta.KeyBase64 == "":
		if row.Key, err = url.PathUnescape(name); err != nil {
			return row, errNoKey
		}
	}
	if FileName(row.Key) != name {
		return row, errNoKey
	}
	row.ContentID = max(meta.ContentID, meta.EarlierID)
	sum.Begin(row.Key, max(meta.ContentType, meta.Earlier))
	file, err := regular.Open(filepath.Join(t.path, name), os.O_RDONLY, 0)
	if err != nil {
		return row, err
	}
	_, err = io.Copy(sum, file)
	row.Sum = sum.Sum()
	return row, errors.Join(err, file.Close())
}

// Expect returns a [*sink.ChangedError] unless the file of a key still has the given row, or still does not
// exist if the row is nil. A change between this call and the commit of the batch is not noticed.
func (t *target) Expect(_ context.Context, key string, was *sink.Row) error {
	var sum digest.Summer
	row, err := t.row(FileName(key), &sum)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if missing != (was == nil) || was != nil && row != *was {
		return &sink.ChangedError{Keys: []string{key}}
	}
	return nil
}
