package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// Limits of the indexes that are served, in bytes.
const (
	maxIndex   = 64 << 20
	maxIndexes = 4 << 20 // of all that are remembered
)

// An indexResource is the resource of a snapshot's index. What is served differs
// from what is stored in that all URLs are absolute.
type indexResource struct {
	server   *Server
	name, id string
	key      string
	base     string
	location string // of the index, if it was asked for as the newest
}

// A servedIndex is an index as it is served to the clients of one base URL.
type servedIndex struct {
	representation
	body []byte
}

// stat implements resource.
func (x *indexResource) stat(ctx context.Context) (*representation, error) {
	served, err := x.load(ctx)
	if err != nil {
		return nil, err
	}
	rep := served.representation
	rep.location = x.location
	rep.immutable = x.location == ""
	rep.hosted = x.server.publicURL == ""
	return &rep, nil
}

// open implements resource.
func (x *indexResource) open(ctx context.Context, offset, length int64) (*representation, io.ReadCloser, error) {
	served, err := x.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	rep, err := x.stat(ctx)
	if err != nil {
		return nil, nil, err
	}
	if length < 0 {
		length = rep.stored
	}
	return rep, io.NopCloser(io.NewSectionReader(bytes.NewReader(served.body), offset, length)), nil
}

// load returns the index. One at a time is made ready, as each takes memory.
func (x *indexResource) load(ctx context.Context) (*servedIndex, error) {
	s, key := x.server, x.base+" "+x.key
	if served, ok := s.indexes.get(key); ok {
		return served, nil
	}
	select {
	case s.indexing <- struct{}{}:
		defer func() { <-s.indexing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if served, ok := s.indexes.get(key); ok {
		return served, nil
	}
	index, err := x.read(ctx)
	if err != nil {
		return nil, err
	}
	x.own(index)
	if err := resolve(index, x.base); err != nil {
		return nil, fmt.Errorf("resolve references in index %s: %w", x.key, err)
	}
	body, err := json.Marshal(index)
	if err != nil {
		return nil, fmt.Errorf("encode index %s: %w", x.key, err)
	}
	digest := sha256.Sum256(body)
	served := &servedIndex{body: body, representation: representation{
		contentType: snapshot.MediaType,
		tag:         shortDigest(hex.EncodeToString(digest[:])),
		modified:    index.CreatedAt,
		stored:      int64(len(body)),
		digest:      func(context.Context) ([]byte, error) { return digest[:], nil },
	}}
	return s.indexes.add(key, served, len(body)), nil
}

// own puts the server's own URLs in the place of others: those that readers of the
// store have are not for readers of the server, and may expire.
func (x *indexResource) own(index *snapshot.Index) {
	for n := range index.Pages {
		index.Pages[n] = layout.SnapshotPagePath(x.name, x.id, n)
	}
	if index.Feed == nil {
		return
	}
	if name, n, err := layout.ParseFeedPageURL(index.Feed.Page); err == nil {
		index.Feed.URL, index.Feed.Page = layout.FeedPath(name), layout.FeedPagePath(name, n)
	}
}

// read returns the index as it is stored.
func (x *indexResource) read(ctx context.Context) (*snapshot.Index, error) {
	object, err := x.server.store.Get(ctx, x.key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, errNoSnapshot
	} else if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer object.Body.Close()
	if object.Size > maxIndex {
		return nil, fmt.Errorf("read index %s: it has %d bytes, more than %d", x.key, object.Size, maxIndex)
	}
	data, err := io.ReadAll(object.Body)
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", x.key, err)
	}
	index, err := snapshot.DecodeStored(x.id, object.Meta.Data, data)
	if err != nil {
		return nil, x.server.integrity.corrupted(x.key, err)
	}
	return index, nil
}

// resolve makes the references of an index absolute. A path in it begins at the
// server's root, which may have a path itself.
func resolve(index *snapshot.Index, base string) error {
	u, err := url.Parse(base + "/")
	if err != nil {
		return err
	}
	references := make([]*string, 0, len(index.Pages)+2)
	for i := range index.Pages {
		references = append(references, &index.Pages[i])
	}
	if index.Feed != nil {
		references = append(references, &index.Feed.URL, &index.Feed.Page)
	}
	for _, reference := range references {
		if strings.HasPrefix(*reference, "/") && !strings.HasPrefix(*reference, "//") {
			*reference = base + *reference
		}
	}
	return index.Resolve(u)
}
