package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// copySnapshots copies the snapshots of the given name that are missing from the target, oldest first: the
// pages of each, and then its index, which makes it exist. A snapshot that is no longer in the source stays
// in the target. The URLs in an index are copied unchanged; those that refer to a bucket or a CDN continue to
// do so.
func copySnapshots(ctx context.Context, from, to storage.Store, name string, memory *semaphore.Weighted) (stats Stats, err error) {
	ids, _, err := snapshots.List(ctx, from, name)
	if err != nil {
		return stats, fmt.Errorf("copy snapshots: %w", err)
	}
	for _, id := range ids {
		more, err := copySnapshot(ctx, from, to, name, id, memory)
		stats.add(more)
		if err != nil {
			return stats, fmt.Errorf("copy snapshot %s of %q: %w", id, name, err)
		}
	}
	return stats, nil
}

func copySnapshot(ctx context.Context, from, to storage.Store, name, id string, memory *semaphore.Weighted) (stats Stats, err error) {
	info, index, data, err := readIndex(ctx, from, name, id)
	if errors.Is(err, storage.ErrNotFound) {
		return stats, nil // deleted meanwhile
	}
	if err != nil {
		return stats, err
	}
	there, err := to.Stat(ctx, info.Key)
	switch {
	case err == nil:
		return stats, same(info, there)
	case !errors.Is(err, storage.ErrNotFound):
		return stats, err
	}
	if stats, err = copyPages(ctx, from, to, name, id, index.PageCount, memory); errors.Is(err, storage.ErrNotFound) {
		if _, gone := from.Stat(ctx, info.Key); errors.Is(gone, storage.ErrNotFound) {
			return stats, nil // deleted meanwhile
		}
	}
	if err != nil {
		return stats, err
	}
	stats.Bytes += info.Size
	return stats, create(ctx, to, info.Key, info.Meta, storage.Bytes(data))
}

// copyPages copies the pages of a snapshot, several at a time.
func copyPages(ctx context.Context, from, to storage.Store, name, id string, pages int, memory *semaphore.Weighted) (Stats, error) {
	var copied, written atomic.Int64
	group, each := errgroup.WithContext(ctx)
	for n := range pages {
		if memory.Acquire(each, inMemory) != nil {
			break // the error is that of the group or of ctx
		}
		group.Go(func() error {
			defer memory.Release(inMemory)
			size, err := copyPage(each, from, to, layout.SnapshotPage(name, id, n), id, n)
			if err == nil {
				copied.Add(1)
				written.Add(size)
			}
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return Stats{Pages: copied.Load(), Bytes: written.Load()}, err
}

func readIndex(ctx context.Context, from storage.Store, name, id string) (storage.Info, *snapshot.Stored, []byte, error) {
	o, err := from.Get(ctx, layout.SnapshotIndex(name, id), 0, -1)
	if err != nil {
		return storage.Info{}, nil, nil, err
	}
	data, err := io.ReadAll(o.Body)
	if err = errors.Join(err, o.Body.Close()); err != nil {
		return storage.Info{}, nil, nil, err
	}
	index, err := snapshot.ReadStored(id, o.Meta.Data, bytes.NewReader(data))
	return o.Info, index, data, err
}

func copyPage(ctx context.Context, from, to storage.Store, key, id string, n int) (size int64, err error) {
	meta, source, content, err := fetch(ctx, from, key, func(info storage.Info) (string, error) {
		about, err := snapshot.DecodePage(id, n, info.Meta.Data)
		if err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		return about.SHA256, nil
	})
	if err != nil {
		return 0, err
	}
	return source.size, create(ctx, to, key, meta, content)
}

// create writes an immutable object. An existing object must be identical.
func create(ctx context.Context, to storage.Store, key string, meta storage.Meta, content storage.Body) error {
	_, err := to.Create(ctx, key, meta, content)
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	there, err := to.Stat(ctx, key)
	if err == nil {
		err = same(storage.Info{Key: key, Size: content.Size(), Meta: meta}, there)
	}
	if err == nil {
		err = storage.Sync(ctx, to, key)
	}
	return err
}

func same(source, target storage.Info) error {
	if source.Size != target.Size || string(source.Meta.Data) != string(target.Meta.Data) {
		return fmt.Errorf("%w: %s is a different object", ErrDiverged, source.Key)
	}
	return nil
}
