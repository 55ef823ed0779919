// Package chain reads a feed in a store: the metadata of its pages, the hash
// chain that joins them, the floor below which pages have been pruned, and the
// newest page. Consumers see the pages that it finds; package producer is the only
// writer of pages.
//
// # The rules
//
// Pages are numbered from 1. A page is open or closed; an open page grows, a
// closed page never changes. Every page but the first names the digest of the
// page before it, as that page was when it was closed. The pages of the feed are those from the
// floor upwards, as long as each one is closed and named by the next; the last of them is the
// newest page. A page beyond it, up to [Ahead] pages away, is an orphan: left by a producer that
// created pages ahead and was killed or lost a race. Readers do not see orphans, and a producer may
// replace one.
//
// Each page records up to which page its writer knew the chain to be complete. If
// the chain now ends before that, a page in between has been lost: the pages beyond
// it are not orphans, and are neither hidden nor replaced ([ErrLostPages]).
//
// A page below the floor does not exist, even if the store has its object: a
// producer that was suspended for a long time may still have created one. A copy that an [Erasure]
// has made does not exist either, until the floor is raised to the first copy.
package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// Ahead is how many pages a producer may create beyond the newest one before
// it knows that the first of them has landed. It is a property of the format: a
// reader searches this far back for the end of the chain.
const Ahead = 16

// MaxCheckpoint limits a producer's checkpoint, in bytes.
const MaxCheckpoint = 32 << 10

// Errors of this package, to be matched with [errors.Is].
var (
	// ErrNoFeed means that the store has no page of the feed.
	ErrNoFeed = errors.New("feed has no pages")
	// ErrNoPage means that the page is beyond the newest one.
	ErrNoPage = errors.New("feed has no such page yet")
	// ErrPruned means that the page is below the floor.
	ErrPruned = errors.New("page has been pruned")
	// ErrCorrupt means that objects of the feed are damaged, missing or contradictory.
	// The feed cannot be published to.
	ErrCorrupt = errors.New("feed is corrupt in the store")
)

// A Page is the metadata of one state of a page.
type Page struct {
	Feed          string
	Number        int64
	Boundary      string
	Entities      int
	First, Last   time.Time // Last-Modified of the first and last entity, in whole milliseconds
	LastContentID string
	SHA256        string // of the body so far, in hex
	Prev          string // Digest of the page before; empty in page 1
	Closed        bool
	Checkpoint    []byte // of the producer when this state was written; opaque
	// Settled is the number of the last page that the producer knew to be closed and
	// linked in the chain when it wrote this state; 0 if not recorded. It is not part of
	// the Digest. See [Page.ProvesLoss].
	Settled int64
	// Floor is not 0 in a copy made by an [Erasure]: the page does not exist while the floor is lower.
	Floor int64

	Size     int64 // of the stored body, in bytes
	Version  storage.Version
	Modified time.Time // by the store's clock

	unborn bool // the floor is lower than Floor
}

// record is the form of a Page in the metadata of its object, without what the store itself keeps
// about an object.
type record struct {
	Format        int    `json:"format"`
	Feed          string `json:"feed"`
	Number        int64  `json:"page"`
	Boundary      string `json:"boundary"`
	Entities      int    `json:"entities"`
	First         int64  `json:"firstMs"`
	Last          int64  `json:"lastMs"`
	LastContentID string `json:"lastContentId"`
	SHA256        string `json:"sha256"`
	Prev          string `json:"prev,omitempty"`
	Closed        bool   `json:"closed,omitempty"`
	Checkpoint    []byte `json:"checkpoint,omitempty"`
	Settled       int64  `json:"settled,omitempty"`
	Floor         int64  `json:"floor,omitempty"`
}

// format is the version of record and of Digest.
const format = 1

// Digest returns the digest of a closed page in the chain, in hex: the SHA-256 of
// lines of text with the feed, the number, Prev, SHA256, the number of entities, and
// the first and last Last-Modified in Unix milliseconds. Since it covers Prev, it
// identifies all pages up to this one.
func (p *Page) Digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "feedctl page %d\n%s\n%d\n%s\n%s\n%d\n%d\n%d\n",
		format, p.Feed, p.Number, p.Prev, p.SHA256, p.Entities, p.First.UnixMilli(), p.Last.UnixMilli()))
	return hex.EncodeToString(sum[:])
}

// Meta returns the metadata to store with the page's body.
func (p *Page) Meta() (storage.Meta, error) {
	data, err := json.Marshal(record{
		Format: format, Feed: p.Feed, Number: p.Number, Boundary: p.Boundary, Entities: p.Entities,
		First: p.First.UnixMilli(), Last: p.Last.UnixMilli(), LastContentID: p.LastContentID,
		SHA256: p.SHA256, Prev: p.Prev, Closed: p.Closed, Checkpoint: p.Checkpoint, Settled: p.Settled, Floor: p.Floor,
	})
	if err != nil {
		return storage.Meta{}, fmt.Errorf("encode metadata of page %d: %w", p.Number, err)
	}
	return storage.Meta{ContentType: page.ContentType(p.Boundary), Data: selfcheck.Add(data)}, nil
}

// Decode decodes the metadata of page n of a feed, as written by [Page.Meta].
func Decode(feed string, n int64, info storage.Info) (*Page, error) {
	var r record
	err := selfcheck.Verify(info.Meta.Data)
	if err == nil {
		err = json.Unmarshal(info.Meta.Data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: metadata of %s: %w", ErrCorrupt, info.Key, err)
	}
	switch {
	case r.Format != format:
		return nil, fmt.Errorf("%w: %s has format %d, but this program supports %d: use a newer version", ErrCorrupt, info.Key, r.Format, format)
	case r.Feed != feed || r.Number != n:
		return nil, fmt.Errorf("%w: %s holds page %d of feed %q", ErrCorrupt, info.Key, r.Number, r.Feed)
	case r.Entities < 1 || r.Boundary == "" || r.Last < r.First:
		return nil, fmt.Errorf("%w: metadata of %s is incomplete", ErrCorrupt, info.Key)
	}
	return &Page{
		Feed: feed, Number: n, Boundary: r.Boundary, Entities: r.Entities,
		First: time.UnixMilli(r.First).UTC(), Last: time.UnixMilli(r.Last).UTC(), LastContentID: r.LastContentID,
		SHA256: r.SHA256, Prev: r.Prev, Closed: r.Closed, Checkpoint: r.Checkpoint, Settled: r.Settled, Floor: r.Floor,
		Size: info.Size, Version: info.Version, Modified: info.Modified,
	}, nil
}

// leadsTo reports whether next is the page after p in the chain.
func (p *Page) leadsTo(next *Page) bool { return p.Closed && next.Prev == p.Digest() }

// Whole returns the complete multipart document (RFC 2046) of a page, given its stored
// body. An open page is stored without the closing delimiter, so that it can grow.
func (p *Page) Whole(body io.Reader) io.Reader {
	if p.Closed {
		return body
	}
	return io.MultiReader(body, bytes.NewReader(page.AppendClose(nil, p.Boundary)))
}

// Headers yields the headers of the entities of the page, in order. It reads them from body, and
// ends with an error if that is not a whole page.
func (p *Page) Headers(body io.Reader) iter.Seq2[page.Header, error] {
	return func(yield func(page.Header, error) bool) {
		parts := page.NewReader(p.Whole(body), p.Boundary, page.ReaderOptions{})
		for part, err := range parts.Parts() {
			if err != nil {
				yield(page.Header{}, fmt.Errorf("read page %d of feed %q: %w", p.Number, p.Feed, err))
				return
			}
			if !yield(part.Header, nil) {
				return
			}
		}
	}
}

func key(feed string, n int64) string { return layout.FeedPage(feed, n) }
