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
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
)

// maxIndexes is how many indexes are kept in memory.
const maxIndexes = 1024

// An indexResource is the resource of a snapshot's index. It is served with absolute
// URLs.
type indexResource struct {
	server   *Server
	name, id string
	key      string
	base     string
	location string // of the index, if it was requested as the newest
}

// A servedIndex is an index as served to the clients of one base URL. Its body is generated as it
// is sent: head, the URLs of the pages, which differ only in their numbers, and tail.
type servedIndex struct {
	represent.Representation
	head, page, tail []byte
	pages            int
}

// Stat implements [represent.Resource].
func (x *indexResource) Stat(ctx context.Context) (*represent.Representation, error) {
	served, err := x.load(ctx)
	if err != nil {
		return nil, err
	}
	return x.represent(served), nil
}

// Open implements [represent.Resource].
func (x *indexResource) Open(ctx context.Context, offset, length int64) (*represent.Representation, io.ReadCloser, error) {
	served, err := x.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	body := served.body()
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		return nil, nil, fmt.Errorf("prepare index %s: %w", x.key, err)
	}
	if length >= 0 {
		body = io.LimitReader(body, length)
	}
	return x.represent(served), io.NopCloser(body), nil
}

func (x *indexResource) represent(served *servedIndex) *represent.Representation {
	rep := served.Representation
	rep.Location = x.location
	rep.Immutable = x.location == ""
	rep.Hosted = x.server.publicURL == ""
	return &rep
}

// load returns the index after verifying it as a whole. It prepares one index at a time.
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
	served, err := x.prepare(index)
	if err != nil {
		return nil, fmt.Errorf("prepare index %s: %w", x.key, err)
	}
	return s.indexes.Add(key, served, 1), nil
}

// prepare makes the index ready to be served.
func (x *indexResource) prepare(index *snapshot.Stored) (*servedIndex, error) {
	var links []string
	if index.Feed != nil {
		if name, _, err := layout.ParseFeedPageURL(index.Feed.Page); err == nil {
			links = feed.Links{DescribedBy: x.base + layout.DigestPath(name)}.Header()
		}
	}
	if err := resolve(index.Feed, x.base); err != nil {
		return nil, err
	}
	head, tail, err := index.Frame()
	if err != nil {
		return nil, err
	}
	page, err := json.Marshal(x.base + layout.SnapshotPagePath(x.name, x.id, 0))
	if err != nil {
		return nil, err
	}
	served := &servedIndex{head: head, page: bytes.TrimSuffix(page, []byte(`0"`)), tail: tail, pages: index.PageCount}
	hash := sha256.New()
	size, err := io.Copy(hash, served.body())
	if err != nil {
		return nil, err
	}
	digest := hash.Sum(nil)
	served.Representation = represent.Representation{
		ContentType: snapshot.MediaType,
		Tag:         shortDigest(hex.EncodeToString(digest)),
		Modified:    index.CreatedAt,
		Links:       links,
		Stored:      size,
		Digest:      func(context.Context) ([]byte, error) { return digest, nil },
	}
	return served, nil
}

// body returns the whole body.
func (i *servedIndex) body() io.Reader { return &indexBody{index: i} }

// An indexBody generates the body of an index as it is read.
type indexBody struct {
	index *servedIndex
	next  int // number of the next page
	ended bool
	buf   bytes.Buffer
}

// Read implements [io.Reader].
func (b *indexBody) Read(p []byte) (int, error) {
	const enough = 32 << 10
	if b.buf.Len() == 0 {
		if b.next == 0 && !b.ended {
			b.buf.Write(b.index.head)
		}
		for ; b.next < b.index.pages && b.buf.Len() < enough; b.next++ {
			if b.next > 0 {
				b.buf.WriteByte(',')
			}
			b.buf.Write(b.index.page)
			b.buf.Write(strconv.AppendInt(b.buf.AvailableBuffer(), int64(b.next), 10))
			b.buf.WriteByte('"')
		}
		if b.next == b.index.pages && !b.ended {
			b.buf.Write(b.index.tail)
			b.ended = true
		}
	}
	return b.buf.Read(p)
}

// resolve makes the references of a position absolute. A path in a reference begins at the
// server's root, which may itself have a path.
func resolve(position *snapshot.FeedPosition, base string) error {
	if position == nil {
		return nil
	}
	for _, reference := range []*string{&position.URL, &position.Page} {
		if strings.HasPrefix(*reference, "/") && !strings.HasPrefix(*reference, "//") {
			*reference = base + *reference
		}
	}
	u, err := url.Parse(base + "/")
	if err != nil {
		return err
	}
	return position.Resolve(u)
}
