package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A Writer writes a page to an [io.Writer], in several writes for each part. After an error it
// writes nothing more, so the page has no closing delimiter, and readers notice that it is
// truncated.
type Writer struct {
	w        io.Writer
	boundary string
	buf      []byte
	parts    int
	err      error
}

// NewWriter returns a Writer that writes a page with the given boundary to w; see [NewBoundary].
func NewWriter(w io.Writer, boundary string) *Writer {
	return &Writer{w: w, boundary: boundary}
}

var errClosed = errors.New("write page: already closed")

// WritePart writes a part as [AppendPart] does, with the same errors.
func (w *Writer) WritePart(h Header, body []byte) error {
	if w.err != nil {
		return w.err
	}
	if writable(w.boundary) && Occurs(w.boundary, body) {
		return w.fail(fmt.Errorf("write part %d: %w", w.parts, ErrBoundaryInBody))
	}
	if err := w.writeHeader(h, int64(len(body))); err != nil {
		return err
	}
	if err := w.write(body); err != nil {
		return err
	}
	return w.endPart()
}

// WriteStream writes a part with a body of size bytes, which it reads from body in chunks of 32 KiB.
// If the body has another size or contains the boundary, the error matches [ErrContentLength] or
// [ErrBoundaryInBody], and the page is incomplete.
func (w *Writer) WriteStream(h Header, size int64, body io.Reader) error {
	if w.err != nil {
		return w.err
	}
	if err := w.writeHeader(h, size); err != nil {
		return err
	}
	if err := w.copyBody(size, body); err != nil {
		return err
	}
	return w.endPart()
}

// Close writes the closing delimiter. It does not close the underlying writer. A page must have at
// least one part (RFC 2046, section 5.1): otherwise the error matches [ErrNoParts].
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.parts == 0 {
		return w.fail(fmt.Errorf("close page: %w", ErrNoParts))
	}
	w.buf = AppendClose(w.buf[:0], w.boundary)
	if err := w.write(w.buf); err != nil {
		return err
	}
	w.err = errClosed
	return nil
}

func (w *Writer) writeHeader(h Header, size int64) error {
	buf, err := appendHeader(w.buf[:0], w.boundary, h, size)
	if err != nil {
		return w.fail(fmt.Errorf("write part %d: %w", w.parts, err))
	}
	w.buf = buf
	return w.write(buf)
}

// copyBody copies the body and checks that it does not contain the boundary. The end of each chunk,
// which may be the start of a boundary, is carried over to the next chunk.
func (w *Writer) copyBody(size int64, body io.Reader) error {
	const chunk = 32 << 10
	pattern := []byte("--" + w.boundary)
	buf := make([]byte, len(pattern)-1+chunk)
	carried, copied := 0, int64(0)
	for {
		n, err := body.Read(buf[carried:])
		fresh := buf[carried : carried+n]
		if copied += int64(n); copied > size {
			return w.fail(fmt.Errorf("write part %d: %w: body is longer than %d bytes", w.parts, ErrContentLength, size))
		}
		seen := buf[:carried+n]
		if bytes.Contains(seen, pattern) {
			return w.fail(fmt.Errorf("write part %d: %w", w.parts, ErrBoundaryInBody))
		}
		if n > 0 {
			if err := w.write(fresh); err != nil {
				return err
			}
		}
		carried = copy(buf, seen[max(0, len(seen)-len(pattern)+1):])
		switch {
		case err == io.EOF && copied == size:
			return nil
		case err == io.EOF:
			return w.fail(fmt.Errorf("write part %d: %w: body has %d bytes, want %d", w.parts, ErrContentLength, copied, size))
		case err != nil:
			return w.fail(fmt.Errorf("read body of part %d: %w", w.parts, err))
		}
	}
}

func (w *Writer) endPart() error {
	w.parts++
	return w.write([]byte("\r\n"))
}

func (w *Writer) write(b []byte) error {
	if _, err := w.w.Write(b); err != nil {
		return w.fail(fmt.Errorf("write page: %w", err))
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}
