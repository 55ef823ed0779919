package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/pageindex"
)

// Limits of tiles.
const (
	// maxTiles limits the memory for full tiles, in bytes.
	maxTiles = 4 << 20
	// maxTiling is how many tiles are made at the same time; each of them takes up to 16 concurrent requests
	// to a remote store.
	maxTiling = 4
)

// A tileKey identifies a tile, of a feed in one timeline, that will never change.
type tileKey struct {
	feed   *feedstore.Feed
	number int64
}

// A tile is a part of a page index as served to all clients: its URLs are relative.
type tile struct {
	represent.Representation
	body []byte
}

// getTile answers /feeds/{feed}/index/{n}.
func (s *Server) getTile(w *responder, r *http.Request) error {
	f, err := s.feed(r.PathValue("feed"))
	if err != nil {
		return err
	}
	n, ok := pageNumber(r.PathValue("n"))
	first, last := pageindex.Span(n)
	if !ok || first < 1 || last < first {
		return problem.New(http.StatusNotFound, "no-page", "tile numbers are decimal integers from 0")
	}
	res := &tileResource{server: s, number: n, first: first, last: last}
	if f.Linked(last) {
		res.feed = f
		if res.floor, err = floorOf(r.Context(), f); err != nil {
			return err
		}
	} else {
		var newest *chain.Page
		if res.feed, newest, res.floor, err = s.poll(r.Context(), f.Name()); err != nil {
			return err
		}
		if first > newest.Number {
			return problem.New(http.StatusNotFound, "no-page", "the newest page is %d, in tile %d of the index", newest.Number, pageindex.TileOf(newest.Number))
		}
		res.last = min(last, newest.Number-1)
	}
	if last < res.floor {
		return fmt.Errorf("tile %d of feed %q: pages %d to %d: %w (the oldest is %d)", n, f.Name(), first, last, chain.ErrPruned, res.floor)
	}
	return s.sender.Send(w, r, res, nil)
}

// A tileResource is the resource of a tile.
type tileResource struct {
	server      *Server
	feed        *feedstore.Feed
	number      int64
	first, last int64 // pages; last is the last one that has a next page
	floor       int64
	tile        *tile
}

// Stat implements [represent.Resource].
func (t *tileResource) Stat(ctx context.Context) (*represent.Representation, error) {
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	return &t.tile.Representation, nil
}

// Open implements [represent.Resource].
func (t *tileResource) Open(ctx context.Context, offset, length int64) (*represent.Representation, io.ReadCloser, error) {
	if err := t.load(ctx); err != nil {
		return nil, nil, err
	}
	part := t.tile.body[offset:]
	if length >= 0 {
		part = part[:length]
	}
	return &t.tile.Representation, io.NopCloser(bytes.NewReader(part)), nil
}

// load makes the tile from the metadata of its pages, once for a request. Tiles are not stored, so a
// server needs no right to write. A tile that will not change is kept in memory.
func (t *tileResource) load(ctx context.Context) (err error) {
	if t.tile != nil {
		return nil
	}
	full := t.last == t.first+pageindex.Size-1
	key := tileKey{t.feed, t.number}
	if kept, ok := t.server.tiles.Get(key); ok && full && t.first >= t.floor {
		t.tile = kept
		return nil
	}
	select {
	case t.server.tiling <- struct{}{}:
		defer func() { <-t.server.tiling }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.tile, err = t.make(ctx, full); err != nil {
		return err
	}
	if t.tile.Immutable {
		t.tile = t.server.tiles.Add(key, t.tile, len(t.tile.body))
	}
	return nil
}

func (t *tileResource) make(ctx context.Context, full bool) (*tile, error) {
	list := pageindex.Tile{Number: t.number, Full: full, Pages: []pageindex.Page{}}
	if t.first > t.floor {
		list.Prev = strconv.FormatInt(t.number-1, 10)
	}
	if full {
		list.Next = strconv.FormatInt(t.number+1, 10)
	}
	// A tile changes at times that no page records, so Last-Modified is the time of the response.
	rep := represent.Representation{ContentType: pageindex.MediaType, Modified: feed.Truncate(time.Now()), Changing: true}
	for p, err := range t.feed.LinkedPages(ctx, max(t.first, t.floor), t.last) {
		if err != nil {
			return nil, err
		}
		list.Pages = append(list.Pages, pageindex.Page{
			Number: p.Number, URL: "../pages/" + strconv.FormatInt(p.Number, 10),
			Entities: p.Entities, Bytes: p.Size, First: p.First, Last: p.Last,
			Self: decodeDigest(p.Digest()), Prev: decodeDigest(p.Prev),
		})
	}
	body, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode tile %d of feed %q: %w", t.number, t.feed.Name(), err)
	}
	digest := sha256.Sum256(body)
	sum := hex.EncodeToString(digest[:])
	rep.Tag, rep.Stored = shortDigest(sum), int64(len(body))
	rep.Digest = func(context.Context) ([]byte, error) { return digest[:], nil }
	if len(list.Pages) == pageindex.Size {
		rep.Modified, rep.Changing = feed.Truncate(list.Pages[pageindex.Size-1].Last), false
		rep.Immutable, rep.Sum = true, sum
	}
	return &tile{rep, body}, nil
}
