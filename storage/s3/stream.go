package s3

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/feedctl/feedctl/storage"
)

// A stream reads a body on demand. If the connection breaks, it continues at the same byte on
// another connection, provided that the object has not changed.
type stream struct {
	ctx context.Context
	s   *Store
	r   *response

	src        io.ReadCloser // body of a response, read up to pos; nil if there is no connection
	pos        int64         // offset of the next byte of the body
	begin, end int64         // the range of the body that is returned to the caller
	stop       int64         // where reading ends: at end or, if the body is verified, at the end of the body
	sum        hash.Hash     // of the body up to pos; nil if the body is not verified
	err        error         // sticky
}

// stream returns the object with a body that is read on demand. If the response has an open body,
// that must begin at the first byte of the object, and nothing may have been read from it.
func (s *Store) stream(ctx context.Context, r *response, offset, length int64) (*storage.Object, error) {
	b := &stream{ctx: ctx, s: s, r: r}
	b.begin, b.end = cut(r.Size, offset, length)
	if r.body != nil {
		b.src = r.body
		b.verify()
	} else {
		b.pos, b.stop = b.begin, b.end
	}
	if r.rec.long() && r.Meta.Data == nil {
		last, err := s.state(ctx, r.Key)
		if err == nil && last.rec.id != r.rec.id {
			err = errChanged
		}
		if err != nil {
			b.Close()
			return nil, err
		}
		r.Meta = last.Meta
	} else if !r.rec.long() {
		var err error
		if r.Meta, err = decodeMeta(r.rec.payload); err != nil {
			b.Close()
			return nil, damaged(err)
		}
	}
	return &storage.Object{Info: r.Info, Body: b}, nil
}

// verify makes the stream, from which nothing may have been read yet, check the whole body.
func (b *stream) verify() { b.stop, b.sum = b.r.Size, sha256.New() }

// errChanged means that an object was replaced or deleted while its body was being read.
var errChanged = errors.New("the object was replaced or deleted while it was read; read it again")

func (b *stream) Read(p []byte) (int, error) {
	if len(p) == 0 || b.err != nil {
		return 0, b.err
	}
	n, err := b.next(p)
	if err != nil && err != io.EOF {
		err = b.s.failed("read", b.r.Key, err)
	}
	b.err = err
	if err != nil {
		b.close()
	}
	return n, err
}

// next reads bytes for the caller. If the body is verified, the last byte is returned only after
// the whole body has been read.
func (b *stream) next(p []byte) (int, error) {
	if b.sum == nil {
		if b.pos == b.end {
			return 0, io.EOF
		}
		return b.fill(p, b.end)
	}
	if b.pos < b.begin {
		if err := b.discard(b.begin); err != nil {
			return 0, err
		}
	}
	if b.pos < b.end-1 {
		return b.fill(p, b.end-1)
	}
	n := 0
	if b.pos == b.end-1 {
		var err error
		if n, err = b.fill(p, b.end); err != nil {
			return 0, err
		}
	}
	if err := b.discard(b.stop); err != nil {
		return 0, err
	}
	if [sha256.Size]byte(b.sum.Sum(nil)) != b.r.rec.sum {
		return 0, damaged(errDigest)
	}
	return n, io.EOF
}

// discard reads and discards the bytes up to an offset.
func (b *stream) discard(to int64) error {
	if b.pos == to {
		return nil
	}
	buffer := make([]byte, min(64<<10, to-b.pos))
	for b.pos < to {
		if _, err := b.fill(buffer, to); err != nil {
			return err
		}
	}
	return nil
}

// fill reads at least one byte, but none at or after the offset limit.
func (b *stream) fill(p []byte, limit int64) (int, error) {
	p = p[:min(int64(len(p)), limit-b.pos)]
	for attempt := 1; ; attempt++ {
		if b.src == nil {
			if err := b.connect(); err != nil {
				return 0, err
			}
		}
		n, err := b.src.Read(p)
		b.pos += int64(n)
		if b.sum != nil {
			b.sum.Write(p[:n])
		}
		if err != nil {
			b.close()
		}
		switch {
		case n > 0:
			return n, nil
		case b.ctx.Err() != nil:
			return 0, b.ctx.Err()
		case err != nil && attempt == b.s.config.Attempts:
			return 0, fmt.Errorf("connection broke %d times at byte %d: %w", attempt, b.pos, err)
		case err != nil:
			if err := b.s.pause(b.ctx, attempt, err); err != nil {
				return 0, err
			}
		}
	}
}

// connect requests the rest of the bytes. It checks the ID of the write in addition to the ETag,
// since some servers compare the ETag of one file and send the bytes of another.
func (b *stream) connect() error {
	changed := false
	err := b.s.read(b.ctx, func(opts ...options) error {
		r, err := b.s.get(b.ctx, b.r.Key, fmt.Sprintf("bytes=%d-%d", b.pos, b.stop-1), b.r.version.etag, opts...)
		if err != nil {
			return err
		}
		if r.rec.id != b.r.rec.id || r.first != b.pos {
			r.body.Close()
			changed = true
			return nil
		}
		b.src = r.body
		return nil
	})
	if a := classify(err); changed || err != nil && (a == preconditionFailed || a == missing) {
		return errChanged
	}
	return err
}

func (b *stream) close() {
	if b.src != nil {
		b.src.Close()
		b.src = nil
	}
}

func (b *stream) Close() error {
	b.close()
	if b.err == nil {
		b.err = errClosed
	}
	return nil
}

var errClosed = errors.New("body is closed")
