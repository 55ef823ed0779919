package erase

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// inMemory is the size, in bytes, up to which a page is read into memory. A larger page is read twice.
const inMemory = 2 << 20

// A found describes the entities of the keys on a page.
type found struct {
	erased int64            // entities to be erased
	kept   int64            // entities not erased because they are beyond the limit
	last   map[string]state // the last state of each key on the page
}

// A state is the last state of a key.
type state struct {
	operation feed.Operation
	location  string // Content-Location
}

// rewrite copies page p to w, and replaces those of the first limit entities that have one of the keys. It
// reads the stored body to the end and checks its digest.
func (k *keys) rewrite(p *chain.Page, body io.Reader, w io.Writer, limit int) (found, error) {
	have := found{last: map[string]state{}}
	sum := sha256.New()
	source := io.TeeReader(body, sum)
	in, out := page.NewReader(p.Whole(source), p.Boundary, page.ReaderOptions{}), page.NewWriter(w, p.Boundary)
	var e feed.Entity
	for part, err := range in.Parts() {
		if err == nil {
			err = feed.Parse(&e, part, true)
		}
		if err == nil {
			err = k.part(&have, out, part, &e, part.Index < limit)
		}
		if err != nil {
			return have, fmt.Errorf("rewrite page %d of feed %q: %w", p.Number, p.Feed, err)
		}
	}
	if _, err := io.Copy(io.Discard, source); err != nil {
		return have, fmt.Errorf("read page %d of feed %q: %w", p.Number, p.Feed, err)
	}
	if err := checkSum(p, sum); err != nil || !p.Closed {
		return have, err
	}
	return have, out.Close()
}

// part writes an entity, or the one that replaces it.
func (k *keys) part(have *found, out *page.Writer, part *page.Part, e *feed.Entity, mayErase bool) error {
	key, ours, err := k.of(e)
	if err != nil {
		return err
	}
	if ours {
		have.last[key] = state{e.Operation, e.ContentLocation}
		instead, differs := k.erased(e, key)
		switch {
		case differs && mayErase:
			have.erased++
			return out.WritePart(instead.AppendHeader(nil), nil)
		case differs:
			have.kept++
		}
	}
	switch {
	case part.Stream == nil:
		return out.WritePart(part.Header, part.Body)
	case e.Size < 0:
		return fmt.Errorf("entity %s has no Content-Length", e.ContentID)
	}
	return out.WriteStream(part.Header, e.Size, part.Stream)
}

func checkSum(p *chain.Page, sum hash.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("%w: page %d of feed %q has SHA-256 %s, its metadata says %s", chain.ErrCorrupt, p.Number, p.Feed, got, p.SHA256)
	}
	return nil
}

// A rewritten is a page with its new body.
type rewritten struct {
	found
	page *chain.Page // the original
	sum  hash.Cloner // SHA-256 of body
	body storage.Body
}

// rewritePage reads a page of the feed and rewrites its body. A new body that is not kept in memory is
// made again each time it is opened, by rewriting the page.
func (p *Plan) rewritePage(ctx context.Context, original *chain.Page, limit int) (*rewritten, error) {
	r := &rewritten{page: original, sum: sha256.New().(hash.Cloner)}
	rewrite := func(w io.Writer) (found, error) { return p.rewrite(ctx, original, w, limit) }
	var err error
	if original.Size <= inMemory {
		var content bytes.Buffer
		content.Grow(int(original.Size))
		r.found, err = rewrite(io.MultiWriter(r.sum, &content))
		r.body = storage.Bytes(content.Bytes())
	} else {
		var size counter
		r.found, err = rewrite(io.MultiWriter(r.sum, &size))
		r.body = &piped{int64(size), func(w io.Writer) error { _, err := rewrite(w); return err }}
	}
	if original.Closed {
		r.body = storage.WithSHA256(r.body, r.sum)
	}
	return r, err
}

// rewrite reads a page of the feed and writes the body of its copy to w.
func (p *Plan) rewrite(ctx context.Context, original *chain.Page, w io.Writer, limit int) (found, error) {
	object, err := p.store.Get(ctx, layout.FeedPage(p.feed, original.Number), 0, original.Size)
	if err != nil {
		return found{}, fmt.Errorf("read page %d of feed %q: %w", original.Number, p.feed, err)
	}
	have, err := p.keys.rewrite(original, object.Body, w, limit)
	return have, errors.Join(err, object.Body.Close())
}

// A counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// A piped is a body that is produced by a function each time that it is read. It implements
// [storage.Body].
type piped struct {
	size  int64
	write func(io.Writer) error
}

// Size implements [storage.Body].
func (b *piped) Size() int64 { return b.size }

// Open implements [storage.Body]. Reading ends with the error of b.write.
func (b *piped) Open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(b.write(w)) }()
	return r, nil
}
