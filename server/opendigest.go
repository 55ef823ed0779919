package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/page"
)

// maxHashed is how much of an open page is read for its digest at once. Pages
// that grow by more at a time go without.
const maxHashed = 16 << 20

// An openDigest hashes the newest page of a feed as it grows, so that each of its
// bytes is read for this only once. What it has hashed is checked against what
// the producer wrote down.
type openDigest struct {
	reader *chain.Reader
	free   chan struct{} // has room for whoever uses what follows

	number int64
	hash   hash.Hash // of the first size bytes of page number
	size   int64
}

// sum returns the SHA-256 of an open page with its closing delimiter, or nil if
// that cannot be told.
func (d *openDigest) sum(ctx context.Context, p *chain.Page) []byte {
	select {
	case d.free <- struct{}{}:
		defer func() { <-d.free }()
	case <-ctx.Done():
		return nil
	}
	if d.hash == nil || d.number < p.Number {
		d.number, d.hash, d.size = p.Number, sha256.New(), 0
	}
	if d.number != p.Number || d.size > p.Size || p.Size-d.size > maxHashed {
		return nil // a state that is outdated already, or too much to read
	}
	if !d.grow(ctx, p) || hex.EncodeToString(d.hash.Sum(nil)) != p.SHA256 {
		d.hash = nil
		return nil
	}
	cloner, ok := d.hash.(hash.Cloner)
	if !ok {
		return nil
	}
	closed, err := cloner.Clone()
	if err != nil {
		return nil
	}
	closed.Write(page.AppendClose(nil, p.Boundary))
	return closed.Sum(nil)
}

// grow hashes what the page has got since the last time.
func (d *openDigest) grow(ctx context.Context, p *chain.Page) bool {
	missing := p.Size - d.size
	if missing == 0 {
		return true
	}
	_, object, err := d.reader.Open(ctx, p.Number, d.size, missing)
	if err != nil {
		return false
	}
	defer object.Body.Close()
	n, err := io.Copy(d.hash, object.Body)
	d.size += n
	return err == nil && n == missing
}
