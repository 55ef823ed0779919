package replica

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// inMemory is the size up to which a body is read into memory before it is written, in bytes. A larger body
// is streamed, and read again if a driver has to send it again.
const inMemory = 2 << 20

// errDigest means that a body does not match its digest.
var errDigest = errors.New("its SHA-256 does not match its metadata")

// A body is a part of the body of an object in the source. It ends where the object ended
// when it was read, even if the object has grown since. It implements [storage.Body].
type body struct {
	ctx    context.Context
	store  storage.Store
	key    string
	offset int64
	size   int64
	before hash.Hash // of the bytes before offset; nil if there are none
	want   string    // SHA-256 of all bytes to the end of the part, in hex; "" if unknown

	read hash.Hash // of all bytes to the end, once they have been read
}

// Size implements [storage.Body].
func (b *body) Size() int64 { return b.size }

// Open implements [storage.Body]. The reader ends with an error if the digest is wrong.
func (b *body) Open() (io.ReadCloser, error) {
	if b.size == 0 {
		return b.check(io.NopCloser(eof{}))
	}
	o, err := b.store.Get(b.ctx, b.key, b.offset, b.size)
	if err != nil {
		return nil, err
	}
	return b.check(o.Body)
}

// check returns a reader of the body's bytes, from r, that checks the digest.
func (b *body) check(r io.ReadCloser) (io.ReadCloser, error) {
	sum, err := newHash(b.before)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &checked{ReadCloser: r, body: b, sum: sum, rest: b.size}, nil
}

// content returns the body, read into memory if it is small.
func (b *body) content() (storage.Body, error) {
	if b.size > inMemory {
		return b, nil
	}
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return b.bytes(r)
}

// fetch opens an object in the source, and reads it into memory if it is small. sum returns
// the SHA-256 in its metadata.
func fetch(ctx context.Context, store storage.Store, key string, sum func(storage.Info) (string, error)) (storage.Meta, *body, storage.Body, error) {
	o, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return storage.Meta{}, nil, nil, err
	}
	defer o.Body.Close()
	b := &body{ctx: ctx, store: store, key: key, size: o.Size}
	if b.want, err = sum(o.Info); err != nil || b.size > inMemory {
		return o.Meta, b, b, err
	}
	r, err := b.check(o.Body)
	if err != nil {
		return o.Meta, b, nil, err
	}
	content, err := b.bytes(r)
	return o.Meta, b, content, err
}

// bytes reads r, which checks the digest, into memory.
func (b *body) bytes(r io.Reader) (storage.Body, error) {
	data := bytes.NewBuffer(make([]byte, 0, b.size+bytes.MinRead)) // room to find the end
	_, err := data.ReadFrom(r)
	return storage.Bytes(data.Bytes()), err
}

// discard reads the body to check its digest.
func (b *body) discard() error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// A checked is a reader that checks the digest at the end.
type checked struct {
	io.ReadCloser
	body *body
	sum  hash.Hash
	rest int64
}

// Read implements [io.Reader].
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
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
