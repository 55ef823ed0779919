package page

import (
	"errors"
	"io"
)

var errStale = errors.New("read body of part: the next part has already been read")

// A stream is a body that is larger than MaxWhole. Each part has a new stream, so that an old
// stream cannot read from a later part.
type stream struct {
	r    *Reader // nil once the next part has been read
	read int64
}

func (s *stream) Read(p []byte) (int, error) {
	if s.r == nil {
		return 0, errStale
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.available()
	if err != nil {
		return 0, err
	}
	n = copy(p[:min(n, len(p))], s.r.window.bytes())
	s.consume(n)
	return n, nil
}

// available returns the number of bytes of the body at the start of the window: at least one,
// or 0 with io.EOF.
func (s *stream) available() (int, error) {
	r := s.r
	if r.err != nil {
		return 0, r.err
	}
	if r.body.known == 0 && !r.body.found {
		if err := r.extendBody(); err != nil {
			return 0, err
		}
	}
	n := r.body.known
	if n == 0 {
		if err := r.checkLength(s.read); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	if r.maxPart > 0 && int64(n) > r.maxPart-s.read {
		n = int(r.maxPart - s.read)
		if n == 0 {
			return 0, r.fail(ErrPartTooLarge, r.window.offset())
		}
	}
	return n, nil
}

func (s *stream) consume(n int) {
	s.r.consumeBody(n)
	s.read += int64(n)
}

// skipStream consumes the rest of the streamed body, with the same checks as the stream's
// Read.
func (r *Reader) skipStream() error {
	for {
		n, err := r.stream.available()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.stream.consume(n)
	}
}

func (r *Reader) closeStream() {
	if r.stream != nil {
		r.stream.r = nil
		r.stream = nil
	}
}
