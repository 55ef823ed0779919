package jsonscan

import (
	"bytes"
	"fmt"
	"io"
)

// A SyntaxError reports invalid JSON, or JSON of another type than requested.
type SyntaxError struct {
	Offset int64 // in bytes from the beginning of the stream
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Reason) }

// maxMarked is the maximum number of bytes that are kept after a mark, so that many small values do not
// fill the memory. If there are more, the mark is lost.
const maxMarked = 4 << 20

// firstBuffer is the initial size of a Reader's buffer, in bytes. The buffer grows if larger values are
// read as a whole.
const firstBuffer = 64 << 10

// A Reader reads JSON incrementally: it enters objects and arrays, and returns values as
// bytes, which are valid until the next call.
//
// Its errors are [*SyntaxError], io.ErrUnexpectedEOF if the stream is truncated, and errors of the stream.
type Reader struct {
	src   io.Reader
	buf   []byte
	pos   int // buf[pos:end] has not been read yet
	end   int
	base  int64 // offset of buf[0] in the stream
	err   error // of src
	hold  int   // start of the value being read, or -1
	mark  int   // index in buf where Mark was called, or of the first line break after that; or -1
	lost  bool  // whether the mark was lost, to be replaced with the next line break
	depth int   // number of levels at the mark
	stack []level
	value value
	key   []byte
	// Blocks, if set, is called before each Read of the stream, which may block.
	Blocks func()
	// Lines means that each value is on a line of its own, so that a line break within a value is a syntax
	// error. If it is not set, an incomplete value extends to the lines that follow.
	Lines bool
}

// A level is an object or array that has been entered.
type level struct {
	end   byte // '}' or ']'
	comma comma
}

// A comma says whether a comma must come before the next element.
type comma uint8

const (
	never comma = iota // before the first element
	must
	may // after Resync
)

// NewReader returns a Reader of a stream.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, hold: -1, mark: -1} }

// Reset makes r read another stream. It keeps the buffer, Blocks and Lines.
func (r *Reader) Reset(src io.Reader) {
	*r = Reader{
		src: src, buf: r.buf, hold: -1, mark: -1,
		stack: r.stack[:0], value: value{stack: r.value.stack[:0]}, key: r.key[:0], Blocks: r.Blocks, Lines: r.Lines,
	}
}

// fill reads more of the stream into the buffer. It may move the bytes that are in the buffer.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if r.mark >= 0 && r.pos-r.mark > maxMarked {
		r.unmark()
	}
	if r.end == len(r.buf) {
		r.makeRoom()
	}
	if r.Blocks != nil {
		r.Blocks()
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	r.err = err
	if n > 0 {
		return nil
	}
	return err
}

// makeRoom discards bytes that are no longer needed, and enlarges the buffer if more
// than half of it is still needed.
func (r *Reader) makeRoom() {
	keep := r.pos
	for _, at := range [...]*int{&r.hold, &r.mark} {
		if *at >= 0 {
			keep = min(keep, *at)
		}
	}
	buf := r.buf
	if r.end-keep > len(buf)/2 || len(buf) == 0 {
		buf = make([]byte, max(2*len(buf), firstBuffer))
	}
	copy(buf, r.buf[keep:r.end])
	r.buf = buf
	r.base += int64(keep)
	r.pos -= keep
	r.end -= keep
	for _, at := range [...]*int{&r.hold, &r.mark} {
		if *at >= 0 {
			*at -= keep
		}
	}
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) syntax(at int, format string, args ...any) error {
	return &SyntaxError{Offset: r.base + int64(at), Reason: fmt.Sprintf(format, args...)}
}

// Peek returns the next byte that is not white space, without reading it. The
// error is io.EOF if there is none.
func (r *Reader) Peek() (byte, error) {
	inside := r.Lines && len(r.stack) > 0
	for {
		for ; r.pos < r.end; r.pos++ {
			c := r.buf[r.pos]
			if !space(c) {
				return c, nil
			}
			if c == '\n' {
				if inside {
					return 0, r.syntax(r.pos, "line ends inside a value")
				}
				r.remark(r.pos, r.pos+1)
			}
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// next reads the next byte that is not white space. There must be one.
func (r *Reader) next() (byte, error) {
	c, err := r.Peek()
	if err != nil {
		return 0, unexpected(err)
	}
	r.pos++
	return c, nil
}

// enter reads the beginning of an object ('{') or of an array ('[').
func (r *Reader) enter(kind byte) error {
	c, err := r.next()
	if err != nil {
		return err
	}
	if c != kind {
		return r.syntax(r.pos-1, "found %q, not %q", c, kind)
	}
	if len(r.stack) == maxDepth {
		return r.syntax(r.pos-1, "nested deeper than %d", maxDepth)
	}
	r.stack = append(r.stack, level{end: kind + 2}) // in ASCII, '}' and ']' are two after '{' and '['
	return nil
}

// more reports whether the innermost array or object has another element or member. If there is none, more
// leaves the array or object.
func (r *Reader) more() (bool, error) {
	at := &r.stack[len(r.stack)-1]
	c, err := r.next()
	if err != nil {
		return false, err
	}
	if c == at.end {
		r.stack = r.stack[:len(r.stack)-1]
		return false, nil
	}
	switch {
	case c == ',' && at.comma != never:
		if c, err = r.Peek(); err != nil {
			return false, unexpected(err)
		}
		if c == at.end && at.comma == may {
			at.comma = never
			return r.more()
		}
		if c == at.end || c == ',' {
			return false, r.syntax(r.pos, "found %q after a comma", c)
		}
	case c == ',' || at.comma == must:
		return false, r.syntax(r.pos-1, "found %q, not a comma or %q", c, at.end)
	default:
		r.pos-- // the element itself
	}
	at.comma = must
	return true, nil
}

// Key reads the name of the next member of the innermost object, and the colon after it. It returns the
// name with quotes and escapes. At the end of the object, Key leaves the object and returns nil. A name of
// more than 64 KiB is a syntax error.
func (r *Reader) Key() ([]byte, error) {
	if more, err := r.more(); err != nil || !more {
		return nil, err
	}
	if c, err := r.Peek(); err != nil || c != '"' {
		if err != nil {
			return nil, unexpected(err)
		}
		return nil, r.syntax(r.pos, "found %q where a member's name must be", c)
	}
	name, whole, err := r.Value(64 << 10)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, r.syntax(r.pos, "a member's name is too long")
	}
	r.key = append(r.key[:0], name...) // a copy, since reading on may move the bytes in the buffer
	c, err := r.next()
	if err == nil && c != ':' {
		err = r.syntax(r.pos-1, "found %q after a member's name", c)
	}
	if err != nil {
		return nil, err
	}
	return r.key, nil
}

// Object reads an object. It calls member with the name of each member; the function must read the value.
func (r *Reader) Object(member func(name []byte) error) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	for {
		name, err := r.Key()
		if err != nil || name == nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
}

// Array reads an array. It calls element for each element; the function must read the element.
func (r *Reader) Array(element func() error) error {
	if err := r.enter('['); err != nil {
		return err
	}
	for {
		if more, err := r.more(); err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// Value reads the next value, of any type. If the value is larger than limit, in bytes, whole is false,
// and [Reader.Rest] must be called to read the rest of the value.
func (r *Reader) Value(limit int) (b []byte, whole bool, err error) {
	if err := r.begin(); err != nil {
		return nil, false, err
	}
	r.hold = r.pos
	for err == nil && r.value.state != ended && r.pos-r.hold <= limit {
		err = r.advance()
	}
	b = r.buf[r.hold:r.pos]
	r.hold = -1
	return b, err == nil && len(b) <= limit, err
}

// Rest reads the rest of a value that Value did not return as a whole, and writes it to w. It also returns
// errors of w. The mark is lost.
func (r *Reader) Rest(w io.Writer) error {
	if r.mark >= 0 && !r.lost {
		r.unmark()
	}
	for r.value.state != ended {
		r.hold = r.pos
		err := r.advance()
		part := r.buf[r.hold:r.pos]
		r.hold = -1
		if err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Skip skips the next value.
func (r *Reader) Skip() error {
	if err := r.begin(); err != nil {
		return err
	}
	for r.value.state != ended {
		if err := r.advance(); err != nil {
			return err
		}
	}
	return nil
}

// begin goes to the beginning of the next value.
func (r *Reader) begin() error {
	if _, err := r.Peek(); err != nil {
		return unexpected(err)
	}
	r.value.reset()
	r.value.lines = r.Lines
	return nil
}

// advance reads as much of a value as is in the buffer. If the buffer is empty, it fills it first.
func (r *Reader) advance() error {
	if r.pos == r.end {
		if err := r.fill(); err != nil {
			if err == io.EOF && r.value.atEnd() {
				r.value.state = ended
				return nil
			}
			return unexpected(err)
		}
	}
	n, err := r.value.scan(r.buf[r.pos:r.end])
	r.remark(r.pos, r.pos+n)
	r.pos += n
	if err != nil {
		return r.syntax(r.pos, "%v", err)
	}
	return nil
}

// Mark marks the current position for [Reader.Resync]. The position must be the start of an element, or of
// a text on a line of its own. The bytes after the mark are kept in memory until the next call of Mark.
// After a call of Rest, or after 4 MiB, the mark is lost, and the bytes after the next line break are kept
// instead.
func (r *Reader) Mark() {
	r.mark, r.lost, r.depth = r.pos, false, len(r.stack)
}

// unmark drops the mark, which is replaced with the first line break after it.
func (r *Reader) unmark() {
	from := r.mark + 1
	r.mark, r.lost = -1, true
	r.remark(from, r.pos)
}

// remark replaces a lost mark with the first line break in buf[from:to]. This line break ends the line of
// the mark, so it is where Resync would continue.
func (r *Reader) remark(from, to int) {
	if !r.lost || r.mark >= 0 {
		return
	}
	if i := bytes.IndexByte(r.buf[from:to], '\n'); i >= 0 {
		r.mark = from + i
	}
}

// Resync recovers from a syntax error: reading continues after the end of the marked
// line, in the array or object of the mark. It returns up to limit of the skipped bytes,
// starting at the mark.
func (r *Reader) Resync(limit int) ([]byte, error) {
	if r.mark >= 0 {
		r.pos = r.mark
	}
	r.mark, r.lost, r.hold = -1, false, -1
	r.stack = r.stack[:r.depth]
	if r.depth > 0 {
		r.stack[r.depth-1].comma = may
	}
	var passed []byte
	for {
		line := r.buf[r.pos:r.end]
		i := bytes.IndexByte(line, '\n')
		if i >= 0 {
			line = line[:i]
		}
		passed = append(passed, line[:min(len(line), limit-len(passed))]...)
		r.pos += len(line)
		if i >= 0 {
			r.pos++
			return passed, nil
		}
		if err := r.fill(); err != nil {
			return passed, unexpected(err)
		}
	}
}
