package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
)

var (
	// ErrTooLarge means that a body is larger than [Config.MaxEntity].
	ErrTooLarge = errors.New("document is larger than the limit")
	// ErrNotUTF8 means that JSON is not valid UTF-8.
	ErrNotUTF8 = errors.New("is not valid UTF-8")
)

// A StreamError means that a stream could not be published. It matches [ErrTooLarge] or
// [ErrNotUTF8] if the content of the stream is the cause.
type StreamError struct{ Err error }

func (e *StreamError) Error() string { return e.Err.Error() }
func (e *StreamError) Unwrap() error { return e.Err }

// addStream publishes an entity whose body is a stream. It does so at once, because the stream is
// valid only during the call. Entities added before are published first.
func (r *Run) addStream(ctx context.Context, e *feed.Entity) error {
	if err := r.writer.Flush(ctx); err != nil {
		return err
	}
	source := &guard{r: e.Stream, limit: r.b.config.MaxEntity, text: e.ContentType == "application/json"}
	e.Stream = source
	err := r.writer.Add(ctx, e)
	if err != nil && source.err != nil && ctx.Err() == nil {
		return &StreamError{source.err}
	}
	return err
}

// A guard checks a stream as it is read, and records its error.
type guard struct {
	r     io.Reader
	limit int64 // 0: none
	text  bool  // must be UTF-8
	size  int64
	split []byte // the beginning of a character that is incomplete in the last read
	err   error
}

func (g *guard) Read(b []byte) (int, error) {
	n, err := g.r.Read(b)
	g.size += int64(n)
	if g.limit > 0 && g.size > g.limit {
		err = fmt.Errorf("%w of %d bytes", ErrTooLarge, g.limit)
	}
	if g.text && !g.valid(b[:n], errors.Is(err, io.EOF)) {
		err = fmt.Errorf("document %w before byte %d", ErrNotUTF8, g.size)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		g.err = err
	}
	return n, err
}

// valid reports whether the bytes read so far are valid UTF-8. Only at the end must the last
// character be complete.
func (g *guard) valid(b []byte, end bool) bool {
	if len(g.split) > 0 {
		b = append(g.split, b...)
		g.split = nil
	}
	if !end {
		cut := len(b)
		for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
			if c := b[len(b)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(b[len(b)-i:]) {
					cut = len(b) - i
				}
				break
			}
		}
		g.split = append(g.split, b[cut:]...)
		b = b[:cut]
	}
	return utf8.Valid(b)
}
