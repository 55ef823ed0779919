package replica

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// inMemory is the size of a body, in bytes, up to which it is read from the source but
// once. Of a longer one no more than a buffer is in memory; a driver that sends it again
// reads it again.
const inMemory = 4 << 20

// errDigest: the bytes do not have the digest that they should.
var errDigest = errors.New("it does not have the SHA-256 of its metadata")

// A body is a part of a body in the source, to its end or to the end that it had: it may
// have grown since. It implements [storage.Body].
type body struct {
	ctx    context.Context
	store  storage.Store
	key    string
	offset int64
	size   int64
	before hash.Hash // of the bytes before offset; nil if there are none
	want   string    // SHA-256 of all bytes to the end of the part, in hex; "" if that is not known

	read hash.Hash // of all bytes to the end, once they were read
}

// Size implements [storage.Body].
func (b *body) Size() int64 { return b.size }

// Open implements [storage.Body]. The reader ends with an error if the digest is wrong.
func (b *body) Open() (io.ReadCloser, error) {
	sum, err := newHash(b.before)
	if err != nil {
		return nil, err
	}
	if b.size == 0 {
		return &checked{Reader: eof{}, body: b, sum: sum, Closer: io.NopCloser(nil)}, nil
	}
	o, err := b.store.Get(b.ctx, b.key, b.offset, b.size)
	if err != nil {
		return nil, err
	}
	return &checked{Reader: o.Body, Closer: o.Body, body: b, sum: sum, rest: b.size}, nil
}

// content returns the body, read already if it is not long.
func (b *body) content() (storage.Body, error) {
	if b.size > inMemory {
		return b, nil
	}
	data := make([]byte, 0, b.size+1) // and room to find the end
	err := b.each(func(r io.Reader) error {
		for {
			n, err := r.Read(data[len(data):cap(data)])
			data = data[:len(data)+n]
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	return storage.Bytes(data), err
}

// discard reads the body for its digest.
func (b *body) discard() error {
	return b.each(func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

func (b *body) each(read func(io.Reader) error) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	return errors.Join(read(r), r.Close())
}

// A checked reader checks the digest at the end.
type checked struct {
	io.Reader
	io.Closer
	body *body
	sum  hash.Hash
	rest int64
}

// Read implements [io.Reader].
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sum.Write(p[:n])
	c.rest -= int64(n)
	if err != io.EOF {
		return n, err
	}
	if c.rest != 0 {
		return n, fmt.Errorf("read %s: %w", c.body.key, io.ErrUnexpectedEOF)
	}
	if got := hex.EncodeToString(c.sum.Sum(nil)); c.body.want != "" && got != c.body.want {
		return n, fmt.Errorf("%w: %s: %w", chain.ErrCorrupt, c.body.key, errDigest)
	}
	c.body.read = c.sum
	return n, io.EOF
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
