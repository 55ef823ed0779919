package fold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// A VersionFunc returns the name of an entity's version of its key, and the names of the
// versions that it replaces, which may include its own. An entity with an empty name is the last
// state of its key, as are all in a fold without versions. body is the entity's body; the function
// must not use its Body and Stream.
type VersionFunc func(e *feed.Entity, body io.Reader) (name string, replaced []string, err error)

// versions is a table with a row for each version that has not been replaced. Its keys are
// percent-encoded keys of the feed, followed by a space and the version's name.
type versions struct {
	consumer.Sink
	version VersionFunc
	dir     string // for what must be read twice
}

// Begin begins a batch.
func (v *versions) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := v.Sink.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &versionBatch{batch, v}, nil
}

type versionBatch struct {
	consumer.Batch
	versions *versions
}

// Apply applies an entity to the rows of its key. A DELETE is a version like others, since a
// consumer of the snapshot has to know what it replaces.
func (b *versionBatch) Apply(ctx context.Context, e *feed.Entity) (err error) {
	row := *e
	if e.Stream != nil {
		file, size, err := spool(b.versions.dir, e.Stream)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		row.Stream, row.Size = file, size
	}
	name, replaced, err := b.version(&row)
	if err != nil {
		return fmt.Errorf("get version of entity %q: %w", e.ContentID, err)
	}
	if name == "" {
		row.ContentLocation = versionRow(e.Key(), "")
		return b.Batch.Apply(ctx, &row)
	}
	for _, old := range replaced {
		gone := &feed.Entity{Operation: feed.Delete, ContentID: e.ContentID, ContentLocation: versionRow(e.Key(), old)}
		if err := b.Batch.Apply(ctx, gone); err != nil {
			return err
		}
	}
	row.Operation, row.ContentLocation = feed.Put, versionRow(e.Key(), name)
	return b.Batch.Apply(ctx, &row)
}

// version returns the version of an entity whose stream, if any, is a file.
func (b *versionBatch) version(e *feed.Entity) (name string, replaced []string, err error) {
	file, ok := e.Stream.(*os.File)
	if !ok {
		return b.versions.version(e, bytes.NewReader(e.Body))
	}
	if name, replaced, err = b.versions.version(e, file); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return name, replaced, err
}

// versionRow returns the Content-Location of the row of a version, or of a key without
// versions if the name is empty.
func versionRow(key, name string) string {
	if key == "" {
		return "" // which the table refuses
	}
	row := feed.EncodeKey(key)
	if name != "" {
		row += " " + name
	}
	return feed.EncodeKey(row)
}

// versionedKey returns the Content-Location of the key of a row.
func versionedKey(row string) string {
	location, _, _ := strings.Cut(row, " ")
	return location
}

// spool copies a stream into a file without a name.
func spool(dir string, stream io.Reader) (_ *os.File, size int64, err error) {
	file, err := os.CreateTemp(dir, ".feedctl-body-*")
	if err != nil {
		return nil, 0, fmt.Errorf("spool body: %w", err)
	}
	if err = os.Remove(file.Name()); err == nil {
		size, err = io.Copy(file, stream)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("spool body, after %d bytes: %w", size, err), file.Close())
	}
	return file, size, nil
}
