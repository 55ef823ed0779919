package feedstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// maxSnapshots is how many existing snapshots are remembered.
const maxSnapshots = 1024

// MaxSnapshotPage is the highest page number that fits in the key of a snapshot's page.
const MaxSnapshotPage = 999_999

// These errors are about snapshots, and are to be matched with [errors.Is].
var (
	// ErrNoSnapshot means that there is no such snapshot, or that it is not finished.
	ErrNoSnapshot = errors.New("there is no such snapshot")
	// ErrNoSnapshotPage means that the snapshot has no such page.
	ErrNoSnapshotPage = errors.New("the snapshot has no such page")
)

// NewestSnapshot returns the ID of the newest snapshot with a name.
func (r *Reader) NewestSnapshot(ctx context.Context, name string) (string, error) {
	if layout.CheckName(name) != nil {
		return "", ErrNoSnapshot
	}
	id, err := snapshots.Newest(ctx, r.store, name)
	if errors.Is(err, storage.ErrNotFound) {
		err = ErrNoSnapshot
	}
	return id, err
}

// SnapshotIndex returns the stored index of a snapshot without the list of pages: their paths follow from
// package layout. References to the feed that the snapshot was made from are replaced with paths of package
// layout, since the stored references are for readers of the store itself and may expire. The index is
// verified as a whole, in bounded memory.
func (r *Reader) SnapshotIndex(ctx context.Context, name, id string) (*snapshot.Stored, error) {
	index, err := snapshots.Read(ctx, r.store, name, id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, ErrNoSnapshot
	case errors.Is(err, snapshot.ErrMetadata), errors.Is(err, snapshot.ErrDigest), errors.Is(err, snapshot.ErrInvalid):
		return nil, r.Corrupt(layout.SnapshotIndex(name, id), err)
	case err != nil:
		return nil, err
	}
	if index.Feed == nil {
		return index, nil
	}
	if name, n, err := layout.ParseFeedPageURL(index.Feed.Page); err == nil {
		index.Feed.URL, index.Feed.Page = layout.FeedPath(name), layout.FeedPagePath(name, n)
	}
	return index, nil
}

// A SnapshotPage describes one page of a snapshot.
type SnapshotPage struct {
	storage.Info
	ContentType string
	SHA256      string // of the body, in hex
}

// FindSnapshot returns nil if the snapshot is finished and has not been deleted, or else [ErrNoSnapshot].
func (r *Reader) FindSnapshot(ctx context.Context, name, id string) error {
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return ErrNoSnapshot
	}
	index := layout.SnapshotIndex(name, id)
	if _, known := r.finished.Get(index); known {
		return nil
	}
	if _, err := r.store.Stat(ctx, index); errors.Is(err, storage.ErrNotFound) {
		return ErrNoSnapshot
	} else if err != nil {
		return fmt.Errorf("find snapshot: %w", err)
	}
	r.finished.Add(index, struct{}{}, 1)
	return nil
}

// StatSnapshotPage returns the description of a page of a finished snapshot.
func (r *Reader) StatSnapshotPage(ctx context.Context, name, id string, n int) (*SnapshotPage, error) {
	info, err := r.store.Stat(ctx, layout.SnapshotPage(name, id, n))
	if err != nil {
		return nil, noSnapshotPage(err)
	}
	return r.snapshotPage(id, n, info)
}

// OpenSnapshotPage returns the description of a page of a finished snapshot, and opens length bytes of its
// body, beginning at offset; a negative length means to the end. The body is verified as by [Feed.Open].
func (r *Reader) OpenSnapshotPage(ctx context.Context, name, id string, n int, offset, length int64) (*SnapshotPage, io.ReadCloser, error) {
	object, err := r.store.Get(ctx, layout.SnapshotPage(name, id, n), offset, length)
	if err != nil {
		return nil, nil, noSnapshotPage(err)
	}
	p, err := r.snapshotPage(id, n, object.Info)
	if err != nil {
		return nil, nil, errors.Join(err, object.Body.Close())
	}
	if offset > 0 || length >= 0 {
		part, err := r.integrity.part(ctx, object, p.SHA256)
		return p, part, err
	}
	body, err := r.integrity.whole(object, p.SHA256)
	if err != nil {
		return nil, nil, err
	}
	return p, body, nil
}

func noSnapshotPage(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return ErrNoSnapshotPage
	}
	return fmt.Errorf("read page of snapshot: %w", err)
}

func (r *Reader) snapshotPage(id string, n int, info storage.Info) (*SnapshotPage, error) {
	meta, err := snapshot.DecodePage(id, n, info.Meta.Data)
	if sum, decodeErr := hex.DecodeString(meta.SHA256); err == nil && (decodeErr != nil || len(sum) != 32) {
		err = fmt.Errorf("%w: %q is not a SHA-256", snapshot.ErrMetadata, meta.SHA256)
	}
	if err != nil {
		return nil, r.Corrupt(info.Key, err)
	}
	p := &SnapshotPage{Info: info, ContentType: info.Meta.ContentType, SHA256: meta.SHA256}
	if meta.Boundary != "" {
		p.ContentType = page.ContentType(meta.Boundary)
	}
	return p, nil
}
