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

// ReaderOptions holds the options of a [Reader]. Zero values mean the defaults.
type ReaderOptions struct {
	// MaxHeader is the maximum size of the header block of a part, in bytes, without the blank line
	// that ends it. 0 means 64 KiB.
	MaxHeader int
	// MaxPart is the maximum size of the body of a part, in bytes. 0 means no limit.
	MaxPart int64
	// MaxWhole is the maximum size, in bytes, of a body that is returned in [Part].Body; larger
	// bodies are streamed. 0 means 1 MiB. The buffer of a Reader grows as needed up to MaxWhole +
	// MaxHeader + 64 KiB. The header of a streamed part is copied.
	MaxWhole int
	// Strict makes the Reader reject a part whose Content-Length is not the length of its body.
	// Otherwise, a wrong Content-Length is ignored.
	Strict bool
}

// A Part is a part of a page. It is valid until the next part is read.
type Part struct {
	// Index of the part in its page, from 0.
	Index int
	// Offset of the part's delimiter line, in bytes from the start of the page.
	Offset int64
	Header Header
	// Body is the whole body. It is nil if and only if Stream is set.
	Body []byte
	// Stream reads a body larger than [ReaderOptions.MaxWhole]. The rest of a body that is not read
	// to its end is skipped. If the page is truncated or exceeds a limit, Read returns an [*Error],
	// never io.EOF.
	Stream io.Reader
}

// A Reader reads the parts of a page from an [io.Reader]. Its memory is bounded by its options,
// whatever the size of the page.
//
// It accepts more than RFC 2046 allows, since not all writers conform to it. Lines may end with CRLF
// or LF. A delimiter line consists of "--", the boundary, "--" if it is the closing delimiter, and up
// to 1 KiB of white space. Everything before the first and after the closing delimiter is ignored;
// the closing delimiter needs no line break. Folded header lines are unfolded. The line break before
// a delimiter line is not part of the body. A CR before an LF belongs to this line break if the
// delimiter line that began the part ended with CRLF, or if Content-Length says so.
//
// Content-Length (RFC 9110, section 8.6) is used to find the end of a body quickly. If no delimiter
// follows the given number of bytes, Content-Length is wrong, and the body ends at the first
// delimiter; see also [ReaderOptions.Strict]. A streamed body always ends at the first delimiter.
//
// A Reader stops at the closing delimiter. It does not read the rest of the source, the epilogue.
type Reader struct {
	strict    bool
	maxHeader int
	maxPart   int64
	maxWhole  int

	window  window
	matcher matcher
	body    bodyScan
	part    Part

	fields      fieldParser
	headerMoves int    // window.moves when the header of the part was parsed
	block       []byte // holds the header of the part if its body is a stream
	length      int64  // Content-Length of the part, or noLength, or badLength
	stream      *stream
	err         error // sticky
}

// NewReader returns a Reader that reads a page from r. The boundary has the form that [Boundary]
// returns; an invalid boundary is reported when the first part is read.
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

// Reset makes r read another page. It keeps the options and reuses the buffers.
// Parts of the previous page are no longer valid.
func (r *Reader) Reset(src io.Reader, boundary string) {
	r.window.reset(src)
	r.begin(boundary)
}

// ResetBytes makes r read another page, which is in memory. The page is not copied: parts point
// into it. Until r is reset, the page belongs to r, which unfolds folded header lines in place.
func (r *Reader) ResetBytes(page []byte, boundary string) {
	r.window.resetBytes(page)
	r.begin(boundary)
}

// begin prepares the reader for the page in the window.
func (r *Reader) begin(boundary string) {
	r.closeStream()
	r.matcher.reset(boundary)
	r.body = bodyScan{lineStart: true} // the preamble
	r.part = Part{Index: -1}
	r.length = noLength
	r.err = nil
	if !readable(boundary) {
		r.err = &Error{Part: -1, Err: ErrBoundary}
	}
}

// Parts returns an iterator over the parts that have not been read. It yields the same *Part each
// time. If there is an error, which is an [*Error], it is yielded with a nil part and ends the
// iteration; further iterations yield the error again.
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

// Offset returns the offset, in the page, of the delimiter line after the part that was yielded last.
// If that part has a Stream that has not been read to its end, Offset returns the current offset of
// the Stream instead.
func (r *Reader) Offset() int64 {
	if !r.body.found || r.stream != nil && r.body.known > 0 {
		return r.window.offset()
	}
	return r.window.offset() + int64(r.body.known+r.body.lineBreak)
}

// Last reports whether the part that was yielded last is followed by the closing delimiter. For a
// part with a Stream, this is known only once the Stream has been read to its end.
func (r *Reader) Last() bool { return r.part.Index >= 0 && r.body.found && r.body.line.closing }

// next reads the next part. It returns nil after the last part.
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

// fail records that reading the page failed with err at the given offset.
func (r *Reader) fail(err error, offset int64) error {
	r.err = &Error{Part: r.part.Index, Offset: offset, Err: err}
	return r.err
}

// more extends the window, or discovers that the page ends with it. If that was already known, the
// page is truncated.
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
