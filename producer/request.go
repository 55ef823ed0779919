package producer

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/feedctl/feedctl/feed"
)

// A request is one publish on its way to its commit.
type request struct {
	items      []item
	bytes      int64 // of all headers and bodies, but for those that are spooled
	spools     int   // bodies that are spooled
	spooled    int64 // their bytes
	given      bool  // some item has a Content-ID of the caller's
	checkpoint []byte
	previous   []byte

	after   *request // is to be published before
	more    bool     // another one is going to follow at once
	release func()   // gives back what it holds, when nobody needs that any more

	tried   bool // some entity is in the feed, or may be
	left    int  // items that are neither written nor found to be duplicates
	receipt Receipt
	err     error
	done    chan struct{} // closed when receipt and err are set
}

// An item is one entity on its way to its commit.
type item struct {
	request *request
	entity  *Entity
	id      idHash // of its Content-ID
	spool   *spool // holds the body, if the entity came with a stream
	load    int64  // how many bytes it adds to a page
	place   int    // in its batch
	given   bool   // the Content-ID is the caller's: it may be in the feed already
	tried   bool   // it has been part of a write that may have taken effect
}

func (i item) size() int64 {
	if i.spool != nil {
		return i.spool.size
	}
	return int64(len(i.entity.Body))
}

// loadOf returns how many bytes an entity with a body of this size adds to a page.
func loadOf(e *Entity, size int64) int64 {
	const boundary = 26 // characters of page.NewBoundary
	n := len("--") + boundary + len("\r\nContent-Length: ") + len("\r\n\r\n") + len("\r\n")
	for digits := size; digits > 9; digits /= 10 {
		n++
	}
	n++ // the last digit
	fields, header := e.HeaderSize()
	return int64(n+fields*len(": \r\n")+header) + size
}

// newRequest checks the entities and spools their streams.
func (f *Feed) newRequest(ctx context.Context, b Batch) (_ *request, err error) {
	r := &request{
		items: make([]item, len(b.Entities)), checkpoint: b.Checkpoint, previous: b.Previous,
		more: b.More, left: len(b.Entities), done: make(chan struct{}),
	}
	if b.After != nil {
		r.after = b.After.request
	}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	for n, e := range b.Entities {
		i := item{request: r, entity: e, given: e.ContentID != ""}
		if !i.given {
			e.ContentID = f.contentID()
		}
		if err := e.Check(true); err != nil {
			return nil, fmt.Errorf("%w: entity %d: %w", ErrInvalid, n, err)
		}
		i.id = hashID(e.ContentID)
		if e.Stream != nil {
			if i.spool, err = newSpool(ctx, f.config.SpoolDir, e, f.config.MaxEntity); err != nil {
				return nil, fmt.Errorf("entity %d: %w", n, err)
			}
		}
		i.load = loadOf(e, i.size())
		r.items[n] = i // from here on, discard removes its spool
		if limit := f.config.MaxEntity; limit > 0 && i.size() > limit {
			return nil, fmt.Errorf("%w: entity %d: body has %d bytes, the limit is %d", ErrInvalid, n, i.size(), limit)
		}
		r.bytes += i.load
		if i.spool != nil {
			r.spools++
			r.bytes -= i.spool.size
			r.spooled += i.spool.size
		}
		r.given = r.given || i.given
	}
	return r, nil
}

// load returns how much the request adds to pages.
func (r *request) load() amount { return amount{r.bytes + r.spooled, len(r.items)} }

// discard removes what was spooled.
func (r *request) discard() {
	for _, i := range r.items {
		if i.spool != nil {
			i.spool.remove()
		}
	}
}

// A spool is a file that holds the body of an entity whose stream can be read
// only once, since a commit may have to be written more than once. It is a [storage.Body].
// It has no name, so that nothing is left of it when the process is killed; where this cannot
// be, remove removes it.
type spool struct {
	file *os.File
	size int64
}

// newSpool reads the entity's stream to its end.
func newSpool(ctx context.Context, dir string, e *feed.Entity, limit int64) (*spool, error) {
	file, err := os.CreateTemp(dir, "feedctl-spool-*")
	if err != nil {
		return nil, fmt.Errorf("spool body: %w", err)
	}
	_ = os.Remove(file.Name())
	s := &spool{file: file}
	source := e.Stream
	if limit > 0 {
		source = io.LimitReader(source, limit+1) // one more shows that there is too much
	}
	if s.size, err = io.Copy(file, contextReader{ctx, source}); err != nil {
		s.remove()
		return nil, fmt.Errorf("spool body: %w", err)
	}
	if tooLarge := limit > 0 && s.size > limit; e.Size >= 0 && s.size != e.Size && !tooLarge {
		s.remove()
		return nil, fmt.Errorf("%w: body has %d bytes, not the %d announced", ErrInvalid, s.size, e.Size)
	}
	return s, nil
}

// Size implements [storage.Body].
func (s *spool) Size() int64 { return s.size }

// Open implements [storage.Body].
func (s *spool) Open() (io.ReadCloser, error) { return s.OpenFrom(0) }

// OpenFrom lets a driver begin in the middle.
func (s *spool) OpenFrom(offset int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.file, offset, s.size-offset)), nil
}

func (s *spool) remove() {
	_ = s.file.Close() // nothing of it is needed any more
	_ = os.Remove(s.file.Name())
}

// contextReader stops reading when its context ends.
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
