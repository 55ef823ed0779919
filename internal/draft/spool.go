package draft

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/feedctl/feedctl/feed"
)

// A Spool is a temporary file with the body of an entity. It is used for writes that may have to be
// repeated, since the stream of an entity can be read only once. A Spool implements [storage.Body].
// If the system allows it, the file has no name, so nothing remains if the process is killed.
type Spool struct {
	file *os.File
	size int64
}

// NewSpool reads the stream of e into a file in dir. If limit is positive, it reads at most limit+1
// bytes, so the spool of a body that is too large has limit+1 bytes.
func NewSpool(ctx context.Context, dir string, e *feed.Entity, limit int64) (*Spool, error) {
	file, err := os.CreateTemp(dir, "feedctl-spool-*")
	if err != nil {
		return nil, fmt.Errorf("spool body: %w", err)
	}
	_ = os.Remove(file.Name())
	s := &Spool{file: file}
	source := e.Stream
	if limit > 0 {
		source = io.LimitReader(source, limit+1) // one byte more than allowed
	}
	if s.size, err = io.Copy(file, contextReader{ctx, source}); err != nil {
		s.Remove()
		return nil, fmt.Errorf("spool body: %w", err)
	}
	if tooLarge := limit > 0 && s.size > limit; e.Size >= 0 && s.size != e.Size && !tooLarge {
		s.Remove()
		return nil, fmt.Errorf("%w: body has %d bytes, not the %d announced", ErrInvalid, s.size, e.Size)
	}
	return s, nil
}

// Size implements [storage.Body].
func (s *Spool) Size() int64 { return s.size }

// Open implements [storage.Body].
func (s *Spool) Open() (io.ReadCloser, error) { return s.OpenFrom(0) }

// OpenFrom opens the body at an offset.
func (s *Spool) OpenFrom(offset int64) (io.ReadCloser, error) {
	return io.NopCloser(s.NewReader(offset)), nil
}

// NewReader returns a reader of the body, starting at an offset. The reader need not be closed.
func (s *Spool) NewReader(offset int64) io.Reader {
	return io.NewSectionReader(s.file, offset, s.size-offset)
}

// Remove closes the file and removes it.
func (s *Spool) Remove() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// A contextReader is a reader that returns an error once its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
