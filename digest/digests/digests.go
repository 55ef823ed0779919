// Package digests reads, writes and collects the state digests in a store. To make the digest of
// a feed, use package snapshot/fold.
//
// The nodes and leaves of all digests of a feed are objects named by the SHA-256 of their bytes
// and shared by the digests. A digest exists once its root has been written, after all nodes and
// leaves.
package digests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// ErrCorrupt means that a root in the store is damaged.
var ErrCorrupt = errors.New("state digest is damaged")

// Names yields the names of feeds that have objects of digests in the store, beginning after the
// name given by after, which may be empty. The order of the names and the cost are those of
// [storage.Names].
func Names(ctx context.Context, store storage.Store, after string) iter.Seq2[string, error] {
	return storage.Names(ctx, store, layout.DigestsPrefix, after)
}

// List returns the IDs of the digests of a feed, oldest first.
func List(ctx context.Context, store storage.Store, feed string) (ids []string, err error) {
	roots, err := list(ctx, store, feed)
	for _, r := range roots {
		ids = append(ids, r.id)
	}
	return ids, err
}

// Newest returns the ID of the newest digest of a feed. If there is none, the error matches
// [storage.ErrNotFound].
func Newest(ctx context.Context, store storage.Store, feed string) (string, error) {
	ids, err := List(ctx, store, feed)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("find state digest of feed %s: %w", feed, storage.ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return ids[len(ids)-1], nil
}

// Read reads and verifies the root of a digest. The error matches [storage.ErrNotFound] if there is
// no such digest, and [ErrCorrupt] or [digest.ErrVersion] if the root cannot be used.
func Read(ctx context.Context, store storage.Store, feed, id string) (*digest.Root, error) {
	r, err := read(ctx, store, feed, id)
	if err != nil {
		return nil, fmt.Errorf("read state digest %s of feed %q: %w", id, feed, err)
	}
	return r, nil
}

func read(ctx context.Context, store storage.Store, feed, id string) (*digest.Root, error) {
	data, err := readBytes(ctx, store, feed, id)
	if err != nil {
		return nil, err
	}
	root, err := digest.ParseRoot(bytes.NewReader(data))
	if errors.Is(err, digest.ErrInvalid) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return root, err
}

// readBytes reads a root and compares it with its metadata.
func readBytes(ctx context.Context, store storage.Store, feed, id string) ([]byte, error) {
	if err := errors.Join(layout.CheckName(feed), layout.CheckName(id)); err != nil {
		return nil, err
	}
	info, data, err := get(ctx, store, layout.DigestRoot(feed, id), digest.MaxRoot)
	if err != nil {
		return nil, err
	}
	want, err := DecodeRoot(feed, id, info.Meta.Data)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); digest.Hash(sum) != want {
		return nil, fmt.Errorf("%w: its SHA-256 is %x, but its metadata says %s", ErrCorrupt, sum, want)
	}
	return data, nil
}

// get reads an object of at most limit bytes.
func get(ctx context.Context, store storage.Store, key string, limit int64) (_ storage.Info, _ []byte, err error) {
	o, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return storage.Info{}, nil, err
	}
	defer func() { err = errors.Join(err, o.Body.Close()) }()
	if o.Size > limit {
		return o.Info, nil, fmt.Errorf("%w: %s has %d bytes, more than %d", ErrCorrupt, key, o.Size, limit)
	}
	data, err := io.ReadAll(o.Body)
	return o.Info, data, err
}

// A rootInfo is the metadata of a root.
type rootInfo struct {
	Feed   string      `json:"feed"`
	ID     string      `json:"id"`
	SHA256 digest.Hash `json:"sha256"`
}

func (i rootInfo) encode() ([]byte, error) {
	data, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("encode metadata of a state digest: %w", err)
	}
	return selfcheck.Add(data), nil
}

// DecodeRoot returns the SHA-256 of a root, which it decodes from the metadata of the root. The
// error matches [ErrCorrupt].
func DecodeRoot(feed, id string, metadata []byte) (digest.Hash, error) {
	var info rootInfo
	err := selfcheck.Verify(metadata)
	if err == nil {
		err = json.Unmarshal(metadata, &info)
	}
	if err == nil && (info.Feed != feed || info.ID != id) {
		err = fmt.Errorf("it belongs to %s of feed %q", info.ID, info.Feed)
	}
	if err != nil {
		return digest.Hash{}, fmt.Errorf("%w: metadata: %w", ErrCorrupt, err)
	}
	return info.SHA256, nil
}

// Objects returns a Getter for the nodes and leaves of the digests of a feed. If an object is
// missing, because the digest was collected or is damaged, the error matches [storage.ErrNotFound].
func Objects(store storage.Store, feed string) digest.Getter { return objects{store, feed} }

type objects struct {
	store storage.Store
	feed  string
}

func (o objects) Get(ctx context.Context, name digest.Hash) ([]byte, error) {
	_, data, err := get(ctx, o.store, layout.DigestNode(o.feed, name.String()), digest.MaxObject)
	if err != nil {
		return nil, fmt.Errorf("read %s of a state digest of feed %q: %w", name, o.feed, err)
	}
	return data, nil
}
