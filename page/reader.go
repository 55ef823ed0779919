package page

import (
	"cmp"
	"io"
	"iter"
)

// Defaults of [ReaderOptions].
const (
	defaultMaxHeader = 64 << 10
	defaultMaxWhole  = 1 << 20
)

// ReaderOptions are the limits of a [Reader]. The zero value is fit for use.
type ReaderOptions struct {
	// MaxHeader limits the header block of a part, in bytes without the blank
	// line that ends it. 0 means 64 KiB.
	MaxHeader int
	// MaxPart limits the body of a part, in bytes. 0 means no limit.
	MaxPart int64
	// MaxWhole is the size in bytes up to which bodies are handed out whole. A
	// larger body is handed out as a stream. 0 means 1 MiB. The buffer of a
	// Reader grows with the parts up to MaxWhole + MaxHeader + 64 KiB; the header
	// of a stream is copied.
	MaxWhole int
	// Strict refuses a part whose Content-Length is not the length of its body.
	// Otherwise a wrong Content-Length is passed over.
	Strict bool
}

// A Part is a part of a page. Whatever it points to is valid until the next
// part is read.
type Part struct {
	// Index of the part in its page, from 0.
	Index int
	// Offset of the part's delimiter line, in bytes from the start of the page.
	Offset int64
	Header Header
	// Body is the whole body, not nil even if it is empty; or nil if there is a
	// Stream.
	Body []byte
	// Stream gives a body that is larger than [ReaderOptions.MaxWhole]. What is
	// not read of it is skipped. Where the page is cut or refused, Read returns
	// an [*Error] and not io.EOF.
	Stream io.Reader
}

// A Reader reads the parts of a page from an [io.Reader], in memory that
// depends on its limits and not on the page.
//
// It reads what RFC 2046 allows, and more, since not all writers keep to it:
// lines may end with CRLF or LF; a delimiter line is "--", the boundary, "--"
// if it is the closing one, and up to 1 KiB of white space; what is before the
// first and after the closing delimiter is ignored, and the latter needs no
// line break; header lines may be folded, and are unfolded. The line break
// before a delimiter line is not part of the body; a CR before an LF belongs to
// this line break if the delimiter line that began the part ended with CRLF, or
// if Content-Length says so.
//
// Content-Length (RFC 9110, section 8.6) is used to skip a body. If there is no
// delimiter after as many bytes, it is wrong, and the body ends at the first
// delimiter; see also [ReaderOptions.Strict]. A body that is handed out as a
// stream always ends at the first delimiter.
//
// Reading stops at the closing delimiter. The epilogue, and so the end of the
// source, is left to the caller.
type Reader struct {
	strict    bool
	maxHeader int
	maxPart   int64
	maxWhole  int

	window  window
	matcher matcher
	body    bodyScan
	part    Part

	header      Header // of part
	headerMoves int    // what window.moves was when header was made
	block       []byte // what header points into if the body is a stream
	length      int64  // Content-Length of part, or noLength, or badLength
	stream      *stream
	err         error // sticky
}

// NewReader returns a Reader of a page from r. The boundary is as [Boundary]
// returns it; one that is not valid is reported with the first part.
func NewReader(r io.Reader, boundary string, o ReaderOptions) *Reader {
	d := &Reader{
		strict:    o.Strict,
		maxHeader: cmp.Or(o.MaxHeader, defaultMaxHeader),
		maxPart:   o.MaxPart,
		maxWhole:  cmp.Or(o.MaxWhole, defaultMaxWhole),
	}
	d.window.max = d.maxHeader + d.maxWhole + bufferSlack
	d.Reset(r, boundary)
	return d
}

// Reset makes r read another page. It keeps options and buffers, so that it
// allocates nothing. Parts of the page before are no longer valid.
func (r *Reader) Reset(src io.Reader, boundary string) {
	r.closeStream()
	r.window.reset(src)
	r.matcher.reset(boundary)
	r.body = bodyScan{lineStart: true} // the preamble
	r.part = Part{Index: -1}
	r.length = noLength
	r.err = nil
	if !readable(boundary) {
		r.err = &Error{Part: -1, Err: ErrBoundary}
	}
}

// Parts returns an iterator over the parts that have not been read yet. The
// part it yields is the same variable each time. An error ends the iteration
// and is yielded last, with a nil part; it is an [*Error], and every further
// iteration yields it again.
func (r *Reader) Parts() iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		for {
			part, err := r.next()
			if part == nil && err == nil || !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// Offset returns how many bytes of the page come before the delimiter that ends
// the part yielded last: the part, and the line break after it, end there. As
// long as its Stream is not read to the end, it is where the Stream stands.
func (r *Reader) Offset() int64 {
	if !r.body.found || r.stream != nil && r.body.known > 0 {
		return r.window.offset()
	}
	return r.window.offset() + int64(r.body.known+r.body.lineBreak)
}

// Last reports whether the part yielded last is known to be the last one: the closing
// delimiter follows it. If it has a Stream, that is known when it was read to the end.
func (r *Reader) Last() bool { return r.part.Index >= 0 && r.body.found && r.body.line.closing }

// next reads the next part. It returns nil after the last one.
func (r *Reader) next() (*Part, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.skipBody(); err != nil {
		return nil, err
	}
	if r.body.line.closing {
		if r.part.Index < 0 {
			return nil, r.fail(ErrNoParts, r.Offset())
		}
		return nil, nil
	}
	r.part = Part{Index: r.part.Index + 1, Offset: r.Offset()}
	r.window.advance(r.body.known + r.body.lineBreak + r.body.line.length)
	r.window.keep = 0
	crlf := r.body.line.crlf
	r.body = bodyScan{}
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	r.body = bodyScan{lineStart: true, crlf: crlf}
	if err := r.readBody(); err != nil {
		return nil, err
	}
	return &r.part, nil
}

// fail makes err, found at offset, the error of the page.
func (r *Reader) fail(err error, offset int64) error {
	r.err = &Error{Part: r.part.Index, Offset: offset, Err: err}
	return r.err
}

// more makes the window longer, or finds out that it ends the page. When that
// is known already, the page is truncated.
func (r *Reader) more() error {
	switch err := r.window.more(); err {
	case nil:
		return nil
	case io.EOF:
		return r.fail(ErrTruncated, r.window.size())
	default:
		return r.fail(err, r.window.size())
	}
}
