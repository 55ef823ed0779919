package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/storage"
)

// tailSize is the number of bytes that are read from the end of an object to get its state. They
// include any short trailer and most long ones.
const tailSize = 4 << 10

// A response is an object, or a range of an object, as sent by the server.
type response struct {
	storage.Info         // Meta is set later if it is in the trailer
	rec          *record // the object's record
	version      version
	total        int64 // length of the object, including the trailer
	first        int64 // offset in the object of the first byte of body
	body         io.ReadCloser
}

// get requests a range of the object, or the whole object if byteRange is "". If etag is not "",
// the object must have this ETag. The body of the response is open.
func (s *Store) get(ctx context.Context, key, byteRange, etag string, opts ...options) (*response, error) {
	in := &s3.GetObjectInput{Bucket: s.bucket(), Key: s.object(key)}
	if byteRange != "" {
		in.Range = &byteRange
	}
	if etag != "" {
		in.IfMatch = &etag
	}
	out, err := s.client.GetObject(ctx, in, opts...)
	if codeOf(err) == "InvalidRange" && etag == "" { // the object is empty
		return s.get(ctx, key, "", "", opts...)
	}
	if err != nil {
		return nil, err
	}
	r := &response{total: aws.ToInt64(out.ContentLength), body: out.Body}
	if out.ContentRange != nil {
		r.first, r.total, err = parseContentRange(*out.ContentRange)
	}
	if err == nil {
		r.rec, err = parseRecord(out.Metadata[metaName])
	}
	if err == nil && r.rec.size+int64(r.rec.trailer) != r.total {
		err = fmt.Errorf("it has %d bytes, want %d", r.total, r.rec.size+int64(r.rec.trailer))
	}
	if err != nil {
		out.Body.Close()
		return nil, damaged(err)
	}
	r.version = version{plain: r.rec.trailer == 0, id: r.rec.id, etag: normalETag(out.ETag)}
	r.Info = storage.Info{Key: key, Version: r.version.encode(), Size: r.rec.size, Modified: utc(out.LastModified)}
	return r, nil
}

func parseContentRange(text string) (first, total int64, err error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	begin, rest, ok2 := strings.Cut(rest, "-")
	_, all, ok3 := strings.Cut(rest, "/")
	first, err1 := strconv.ParseInt(begin, 10, 64)
	total, err2 := strconv.ParseInt(all, 10, 64)
	if !ok || !ok2 || !ok3 || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("the server sent an invalid Content-Range %.80q", text)
	}
	return first, total, nil
}

// state returns the state of the object at key, without the body.
//
// It uses GetObject, not HeadObject. HeadObject does not return the trailer. Besides, for
// HeadObject some servers, such as versitygw, read first the metadata and then the ETag: if the
// object is overwritten in between, they combine the ETag of the new state with the metadata of the
// old one, and a write with that ETag as its condition would undo another write. For GetObject they
// read the ETag first and the rest from one open file; an outdated ETag only makes a condition
// fail.
func (s *Store) state(ctx context.Context, key string) (*response, error) {
	var r *response
	err := s.read(ctx, func(opts ...options) (err error) {
		r, err = s.tail(ctx, key, tailSize, opts...)
		return err
	})
	return r, err
}

// tail reads an object's state from its end. It requests the last length bytes, or more if the
// trailer is longer.
func (s *Store) tail(ctx context.Context, key string, length int, opts ...options) (*response, error) {
	r, err := s.get(ctx, key, fmt.Sprintf("bytes=-%d", length), "", opts...)
	if err != nil {
		return nil, err
	}
	body := r.body
	defer body.Close()
	if r.total-r.first < int64(r.rec.trailer) {
		return s.tail(ctx, key, r.rec.trailer, opts...)
	}
	trailer := make([]byte, r.rec.trailer)
	if _, err = io.CopyN(io.Discard, body, r.Size-r.first); err == nil {
		_, err = io.ReadFull(body, trailer)
	}
	if err != nil {
		return nil, fmt.Errorf("read the end of the object: %w", err)
	}
	if r.Meta, err = r.rec.checkTrailer(trailer); err != nil {
		return nil, damaged(err)
	}
	r.body = nil
	return r, nil
}

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := storage.CheckKey(key); err != nil {
		return storage.Info{}, fmt.Errorf("stat: %w", err)
	}
	r, err := s.state(ctx, key)
	if err != nil {
		return storage.Info{}, s.failed("stat", key, err)
	}
	return r.Info, nil
}

// Get implements [storage.Store]. The context also applies to reading the body.
//
// An object of up to a sixteenth of [Config.Memory] is read whole and verified before Get returns,
// and read again if it is damaged. Larger objects, and all objects while the memory is exhausted,
// are streamed: the last byte is returned only if the digest of the whole body is correct;
// otherwise the error matches [ErrCorrupt]. A range of a large object is not verified.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := storage.CheckKey(key); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	if offset < 0 {
		return nil, s.failed("get", key, fmt.Errorf("negative offset %d", offset))
	}
	o, err := s.open(ctx, key, offset, length)
	if err != nil {
		return nil, s.failed("get", key, err)
	}
	return o, nil
}

func (s *Store) open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	all := offset == 0 && length < 0
	byteRange := ""
	switch {
	case offset >= s.whole:
		r, err := s.state(ctx, key)
		if err != nil {
			return nil, err
		}
		return s.stream(ctx, r, offset, length)
	case !all:
		byteRange = s.wholeRange()
	}
	var o *storage.Object
	err := s.read(ctx, func(opts ...options) error {
		r, err := s.get(ctx, key, byteRange, "", opts...)
		if err != nil {
			return err
		}
		if r.total > s.whole && !all {
			r.body.Close()
			r.body = nil
		}
		if r.total > s.whole || !s.buffers.TryAcquire(r.total) {
			o, err = s.stream(ctx, r, offset, length)
			return err
		}
		m := s.borrow(r.total)
		body, err := r.readWhole(m.bytes)
		if err != nil {
			m.free()
			return err
		}
		s.refresh(r, body)
		begin, end := cut(r.Size, offset, length)
		o = &storage.Object{Info: r.Info, Body: r.memoryBody(body, begin, end, m)}
		return nil
	})
	return o, err
}

// wholeRange returns a range that includes the whole object if that is small enough to be read
// whole.
func (s *Store) wholeRange() string { return fmt.Sprintf("bytes=0-%d", s.whole-1) }

// load reads an object to append to it. The body is nil if the object is large.
func (s *Store) load(ctx context.Context, key string) (r *response, body []byte, err error) {
	err = s.read(ctx, func(opts ...options) (err error) {
		if r, err = s.get(ctx, key, s.wholeRange(), "", opts...); err != nil {
			return err
		}
		if r.total <= s.whole {
			body, err = r.readWhole(make([]byte, r.total))
		} else {
			err = r.body.Close()
		}
		r.body = nil
		return err
	})
	return r, body, err
}

// cut returns the bounds of the requested range within a body of the given size.
func cut(size, offset, length int64) (begin, end int64) {
	begin, end = min(offset, size), size
	if length >= 0 && length < end-begin {
		end = begin + length
	}
	return begin, end
}

// readWhole reads the whole object into a slice, which has the length of the object, verifies it
// and returns its body. It closes the body of the response.
func (r *response) readWhole(object []byte) ([]byte, error) {
	defer r.body.Close()
	if _, err := io.ReadFull(r.body, object); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", r.total, err)
	}
	body := object[:r.Size:r.Size]
	if sha256.Sum256(body) != r.rec.sum {
		return nil, damaged(errDigest)
	}
	var err error
	if r.Meta, err = r.rec.checkTrailer(object[r.Size:]); err != nil {
		return nil, damaged(err)
	}
	return body, nil
}

var errDigest = errors.New("its SHA-256 is not the one that was written; restore it from another version or a copy")

// refresh caches a body that was read if the cache has an earlier state of the object, which means
// that this process appends to the object.
func (s *Store) refresh(r *response, body []byte) {
	if r.version.plain || !s.bodies.has(r.Key) {
		return
	}
	s.bodies.put(newCachedBody(r.Key, r.Version, bytes.Clone(body)))
}

// memoryBody returns the bytes [begin, end) of a verified body as a reader. Closing the reader
// frees m.
func (r *response) memoryBody(body []byte, begin, end int64, m *borrowed) io.ReadCloser {
	part := memoryBody{bytes.NewReader(body[begin:end]), m}
	if end-begin < r.Size {
		return &part
	}
	return &wholeBody{part, body, r.rec.sum}
}

// A memoryBody is a body, or a part of a body, in memory.
type memoryBody struct {
	*bytes.Reader
	memory *borrowed
}

func (b *memoryBody) Close() error {
	b.Reader.Reset(nil)
	b.memory.free()
	return nil
}

// A wholeBody is a whole body in memory. It implements [storage.Loaded].
type wholeBody struct {
	memoryBody
	bytes []byte
	sum   [sha256.Size]byte
}

func (b *wholeBody) Bytes() []byte {
	b.memory.unlimit()
	return b.bytes
}

func (b *wholeBody) SHA256() [sha256.Size]byte { return b.sum }
