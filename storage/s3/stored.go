package s3

import (
	"context"
	"io"
)

// A storedBody is the existing body of an object to which a write appends. It is read from the
// store each time it is opened. Reading fails if the object has changed.
type storedBody struct {
	ctx context.Context
	s   *Store
	r   *response
}

func (b *storedBody) Size() int64 { return b.r.Size }

// Open opens the whole body, which is verified when its end is read.
func (b *storedBody) Open() (io.ReadCloser, error) { return b.OpenFrom(0) }

// OpenFrom opens the body at an offset; see [storage.OpenFrom].
func (b *storedBody) OpenFrom(offset int64) (io.ReadCloser, error) {
	r := *b.r
	r.body = nil
	o, err := b.s.stream(b.ctx, &r, offset, -1)
	if err != nil {
		return nil, err
	}
	if body := o.Body.(*stream); offset == 0 {
		body.verify()
	}
	return o.Body, nil
}
