// Package longfeed provides a store with a feed of any length, for tests. The pages of the feed are generated when
// they are read.
package longfeed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// A Store is a store with a long feed. All other objects come from the embedded Store, and so do pages
// beyond the end of the feed.
type Store struct {
	storage.Store
	feed    string
	at      func(n int64) time.Time
	digests [][sha256.Size]byte // of the pages, beginning with page 1
}

// New returns a Store. The pages of the feed are numbered from 1. Page n is closed and has two entities,
// with the Content-IDs "<n-1>" and "<n-2>" and the time at(n), which must not decrease. New takes about 5
// µs and 32 bytes for each page.
func New(store storage.Store, name string, pages int64, at func(n int64) time.Time) *Store {
	s := &Store{Store: store, feed: name, at: at, digests: make([][sha256.Size]byte, 0, pages)}
	for n := int64(1); n <= pages; n++ {
		p, _ := s.page(n)
		s.digests = append(s.digests, [sha256.Size]byte(decode(p.Digest())))
	}
	return s
}

func decode(digest string) []byte {
	b, err := hex.DecodeString(digest)
	if err != nil {
		panic(err)
	}
	return b
}

// page generates page n.
func (s *Store) page(n int64) (*chain.Page, []byte) {
	boundary, t := fmt.Sprintf("boundary-of-page-%d", n), feed.Milliseconds(s.at(n))
	e := feed.Entity{Operation: feed.Put, LastModified: t, ContentType: "text/plain", ContentLocation: strconv.FormatInt(n, 10)}
	var body bytes.Buffer
	w := page.NewWriter(&body, boundary)
	const entities = 2
	for i := range entities {
		e.ContentID = fmt.Sprintf("<%d-%d>", n, i+1)
		if err := w.WritePart(e.AppendHeader(nil), []byte("text")); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	sum := sha256.Sum256(body.Bytes())
	p := &chain.Page{
		Feed: s.feed, Number: n, Boundary: boundary, Entities: entities, First: t, Last: t, LastContentID: e.ContentID,
		SHA256: hex.EncodeToString(sum[:]), Closed: true, Settled: n - 1,
	}
	if n > 1 {
		p.Prev = hex.EncodeToString(s.digests[n-2][:])
	}
	return p, body.Bytes()
}

// made returns the generated object with the given key. ok is false if the embedded Store has to provide the object.
func (s *Store) made(key string) (info storage.Info, body []byte, ok bool) {
	n, err := layout.ParseFeedPage(s.feed, key)
	if err != nil || n > int64(len(s.digests)) {
		return info, nil, false
	}
	p, body := s.page(n)
	meta, err := p.Meta()
	if err != nil {
		panic(err)
	}
	return storage.Info{Key: key, Version: storage.Version(p.SHA256), Size: int64(len(body)), Modified: p.Last, Meta: meta}, body, true
}

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	if info, _, ok := s.made(key); ok {
		return info, ctx.Err()
	}
	return s.Store.Stat(ctx, key)
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	info, body, ok := s.made(key)
	if !ok {
		return s.Store.Get(ctx, key, offset, length)
	}
	body = body[min(offset, info.Size):]
	if length >= 0 {
		body = body[:min(length, int64(len(body)))]
	}
	return &storage.Object{Info: info, Body: io.NopCloser(bytes.NewReader(body))}, ctx.Err()
}
