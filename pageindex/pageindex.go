// Package pageindex defines the page index of a feed, which lists the pages of the feed for readers
// that are far behind: with the index, a reader can request several pages at the same time, instead
// of learning each URL from the page before.
//
// The index is an extension of the specification. It consists of tiles, JSON documents that list up
// to [Size] consecutive pages each. Only pages that have a next page are listed, so the contents of
// a full tile never change. Every page of a feed links to its tile (rel="timemap").
//
// A reader must not trust the index. A page belongs to the feed only if its neighbours link to it,
// and the digest of a page is the one in the page's own header. The index only says which pages to
// request early.
package pageindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// MediaType is the media type of a tile.
const MediaType = "application/json"

// Size is the number of pages in a full tile written by this program. Readers accept other sizes.
const Size = 256

// MaxBytes is the maximum size of a tile that [Parse] accepts. A full tile has about 80,000 bytes.
const MaxBytes = 1 << 20

// ErrInvalid is matched by the error of [Parse] for a document that is not a tile.
var ErrInvalid = errors.New("not a tile of a page index")

// A Tile lists consecutive pages of a feed.
type Tile struct {
	Number int64 `json:"tile"` // from 0; tile N begins with page N*Size+1
	// Full means that no more pages will be added to the tile. A full tile lists fewer than Size
	// pages if the oldest ones were pruned.
	Full bool `json:"full"`
	// Prev and Next are the URLs of the previous and the next tile. Only a full tile has a Next.
	Prev string `json:"prev,omitempty"`
	Next string `json:"next,omitempty"`
	// Pages lists the pages in order, without gaps. All of them have a next page.
	Pages []Page `json:"pages"`
}

// A Page describes a page in a tile.
type Page struct {
	Number   int64     `json:"number"`
	URL      string    `json:"url"`
	Entities int       `json:"entities"`
	Bytes    int64     `json:"bytes"` // of the page, without content coding
	First    time.Time `json:"first"` // First and Last are the Last-Modified of the first and the last entity
	Last     time.Time `json:"last"`
	Self     []byte    `json:"self,omitempty"` // Self and Prev are members of the field Feedctl-Chain
	Prev     []byte    `json:"prev,omitempty"`
}

// TileOf returns the number of the tile in which page n is listed.
func TileOf(n int64) int64 { return (n - 1) / Size }

// Span returns the numbers of the pages that tile n lists once it is full.
func Span(n int64) (first, last int64) { return n*Size + 1, (n + 1) * Size }

// Parse reads a tile and resolves its URLs against base, the URL of the tile. The error matches
// [ErrInvalid], or is an error of r.
func Parse(r io.Reader, base *url.URL) (*Tile, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrInvalid, MaxBytes)
	}
	var t Tile
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if t.Pages == nil { // for example, a TimeMap in another format
		return nil, fmt.Errorf("%w: it has no pages", ErrInvalid)
	}
	for i := range t.Pages {
		p := &t.Pages[i]
		if i > 0 && p.Number != t.Pages[i-1].Number+1 {
			return nil, fmt.Errorf("%w: page %d follows page %d", ErrInvalid, p.Number, t.Pages[i-1].Number)
		}
		if p.URL, err = resolve(base, p.URL); err != nil {
			return nil, fmt.Errorf("%w: page %d: %w", ErrInvalid, p.Number, err)
		}
	}
	for _, link := range []*string{&t.Prev, &t.Next} {
		if *link == "" {
			continue
		}
		if *link, err = resolve(base, *link); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return &t, nil
}

// resolve returns the absolute URL for a reference, without user name and password.
func resolve(base *url.URL, reference string) (string, error) {
	if reference == "" {
		return "", errors.New("it has no URL")
	}
	u, err := base.Parse(reference)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is not an HTTP URL", u.Redacted())
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u.String(), nil
}
