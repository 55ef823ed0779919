package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/snapshot"
)

// maxIndexes limits the indexes that are remembered, in bytes.
const maxIndexes = 4 << 20

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
	if served, ok := s.indexes.Get(key); ok {
		return served, nil
	}
	select {
	case s.indexing <- struct{}{}:
		defer func() { <-s.indexing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if served, ok := s.indexes.Get(key); ok {
		return served, nil
	}
	index, err := s.reader.SnapshotIndex(ctx, x.name, x.id)
	if err != nil {
		return nil, err
	}
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
	return s.indexes.Add(key, served, len(body)), nil
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
