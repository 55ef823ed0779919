package feedstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/pagecache"
)

// maxHashed is how many bytes of an open page are read for its digest at once. A page that grows by more
// than that between two requests has no digest.
const maxHashed = 16 << 20

// An openDigest hashes the newest page of a feed as the page grows, so that each byte is read only once for
// the hash. It checks the hash against the page's metadata.
type openDigest struct {
	reader *chain.Reader
	free   chan struct{} // a lock for the following fields: holds a value while they are in use

	number   int64
	boundary string
	hash     hash.Hash // of the first size bytes of the page
	size     int64
	since    time.Time // when the first bytes were read
}

// sum returns the SHA-256 of an open page with its closing delimiter, or nil if it is not
// known. It returns an error, and counts it in i, if the page in the store is corrupt.
func (d *openDigest) sum(ctx context.Context, p *chain.Page, i *integrity) ([]byte, error) {
	select {
	case d.free <- struct{}{}:
		defer func() { <-d.free }()
	case <-ctx.Done():
		return nil, nil
	}
	if d.number > p.Number {
		return nil, nil // p is outdated
	}
	known := d.hash != nil && d.boundary == p.Boundary && time.Since(d.since) < pagecache.VerifyAge
	if known && d.size > p.Size {
		return nil, nil
	}
	if known {
		if same, err := d.grow(ctx, p); err != nil || !same {
			return nil, nil // the caller gets the error when it reads the body
		}
		known = hex.EncodeToString(d.hash.Sum(nil)) == p.SHA256 // differs if the store was restored
	}
	state := objectState{layout.FeedPage(p.Feed, p.Number), p.Version, p.SHA256}
	if known {
		i.note(state, d.since)
	} else {
		d.number, d.boundary, d.hash, d.size, d.since = p.Number, p.Boundary, sha256.New(), 0, time.Now()
		if same, err := d.grow(ctx, p); err != nil || !same {
			return nil, nil
		}
		if err := i.check(state, d.hash); err != nil {
			d.hash = nil
			return nil, err
		}
	}
	return d.closed(), nil
}

// closed returns the SHA-256 of the bytes hashed so far followed by the closing delimiter, or nil if the
// hash cannot be cloned.
func (d *openDigest) closed() []byte {
	cloner, ok := d.hash.(hash.Cloner)
	if !ok {
		return nil
	}
	closed, err := cloner.Clone()
	if err != nil {
		return nil
	}
	closed.Write(page.AppendClose(nil, d.boundary))
	return closed.Sum(nil)
}

// A grown is the part of the newest page from some offset to the end.
type grown struct {
	page   *chain.Page
	body   io.ReadCloser
	digest []byte // as sum returns it
}

// read returns page n from offset to the end, in the current state of the page. A reader that follows the
// feed needs little more than the bytes that have to be hashed next, so one request to the store serves the
// reader and the hash. read returns nil if one request cannot serve both, or there are too many bytes.
func (d *openDigest) read(ctx context.Context, n, offset int64, i *integrity) (*grown, error) {
	select {
	case d.free <- struct{}{}:
		defer func() { <-d.free }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d.hash == nil || d.number != n || time.Since(d.since) >= pagecache.VerifyAge {
		return nil, nil
	}
	from := min(offset, d.size)
	if d.size-from > maxEarly {
		return nil, nil
	}
	p, object, err := d.reader.Open(ctx, n, from, -1)
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	size := p.Size - from
	if p.Boundary != d.boundary || p.Size < max(d.size, offset) || size > maxEarly || !i.early.TryAcquire(size) {
		return nil, nil
	}
	body := &heldBody{release: func() { i.early.Release(size) }}
	data := make([]byte, size)
	if err := readWhole(object, data, io.Discard); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	d.hash.Write(data[d.size-from:])
	d.size = p.Size
	if hex.EncodeToString(d.hash.Sum(nil)) != p.SHA256 {
		d.hash = nil
		return nil, body.Close() // if the page is damaged, the caller finds out when it reads the whole page
	}
	i.note(objectState{object.Key, object.Version, p.SHA256}, d.since)
	body.Reader.Reset(data[offset-from:])
	g := &grown{page: p, body: body}
	if !p.Closed {
		g.digest = d.closed()
	}
	return g, nil
}

// grow hashes what was appended since the last call. It reports whether the object in the store is still
// the same page as p.
func (d *openDigest) grow(ctx context.Context, p *chain.Page) (bool, error) {
	missing := p.Size - d.size
	if missing == 0 {
		return true, nil
	}
	if missing > maxHashed {
		d.hash = nil
		return false, nil
	}
	now, object, err := d.reader.Open(ctx, p.Number, d.size, missing)
	if err != nil {
		return false, err
	}
	defer object.Body.Close()
	n, err := io.Copy(d.hash, object.Body)
	d.size += n
	if err != nil || n != missing || now.Boundary != p.Boundary {
		d.hash = nil
		return false, err
	}
	return true, nil
}
