package fold

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
)

// A VersionFunc returns the name of an entity among the versions of its key, and the names of the
// versions that the entity replaces, which may include its own. If the name is empty, the entity is
// the last state of its key, as every entity is in a fold without versions. body is the entity's
// body; the function must not use e.Body or e.Stream.
type VersionFunc func(e *feed.Entity, body io.Reader) (name string, replaced []string, err error)

// versions is a table with a row for each version that has not been replaced. The key of a row is
// the percent-encoded key in the feed, followed by a space and the version's name.
type versions struct {
	consumer.Sink
	version VersionFunc
	dir     string // for large bodies, which are read twice
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

// Apply applies an entity to the rows of its key. A DELETE is stored as a version, too, since a
// consumer of the snapshot has to know which versions the deletion replaces.
func (b *versionBatch) Apply(ctx context.Context, e *feed.Entity) error {
	row := *e
	var body io.Reader = bytes.NewReader(e.Body)
	if e.Stream != nil {
		spool, err := draft.NewSpool(ctx, b.versions.dir, e, 0)
		if err != nil {
			return err
		}
		defer spool.Remove()
		body, row.Stream, row.Size = spool.NewReader(0), spool.NewReader(0), spool.Size()
	}
	name, replaced, err := b.versions.version(&row, body)
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

// versionRow returns the Content-Location of the row of a version or, if the name is empty, of the
// row of a key without versions.
func versionRow(key, name string) string {
	if key == "" {
		return "" // the table rejects it
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
