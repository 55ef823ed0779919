package represent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Content codings (RFC 9110, section 8.4.1; RFC 8878).
const (
	codingGzip = "gzip"
	codingZstd = "zstd"
)

// zstdWindow bounds the memory of an encoder, and of the client's decoder.
const zstdWindow = 512 << 10

// coders holds the encoders of a server. Their number is limited, since each holds memory for as
// long as a client takes to read.
type coders struct {
	free chan struct{} // holds a token for each idle encoder
	gzip sync.Pool
	zstd sync.Pool
}

func newCoders(n int) *coders {
	c := &coders{free: make(chan struct{}, n)}
	for range n {
		c.free <- struct{}{}
	}
	c.gzip.New = func() any {
		w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		if err != nil {
			panic(err) // impossible: the level is a valid constant
		}
		return w
	}
	c.zstd.New = func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	}
	return c
}

// acquire returns the coding if an encoder is free; the caller releases the encoder after the response. Otherwise it
// returns no coding, or waits for an encoder if the client refuses identity.
func (c *coders) acquire(r *http.Request, coding string) (granted string, release func(), err error) {
	if release, ok := c.tryAcquire(); ok {
		return coding, release, nil
	}
	if !identityRefused(r.Header.Values("Accept-Encoding")) {
		return "", func() {}, nil
	}
	select {
	case <-c.free:
		return coding, c.release, nil
	case <-r.Context().Done():
		return "", nil, fmt.Errorf("wait for an encoder: %w", context.Cause(r.Context()))
	}
}

// tryAcquire acquires an encoder if one is free.
func (c *coders) tryAcquire() (release func(), ok bool) {
	select {
	case <-c.free:
		return c.release, true
	default:
		return nil, false
	}
}

func (c *coders) release() { c.free <- struct{}{} }

// write encodes src to w. src must have size bytes.
func (c *coders) write(w io.Writer, coding string, src io.Reader, size int64) error {
	pool := &c.gzip
	if coding == codingZstd {
		pool = &c.zstd
	}
	encoder := pool.Get().(interface {
		io.WriteCloser
		Reset(io.Writer)
	})
	encoder.Reset(w)
	defer func() {
		encoder.Reset(io.Discard) // drop the reference to w
		pool.Put(encoder)
	}()
	n, err := io.Copy(onlyWriter{encoder}, src)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("send body with %s at byte %d of %d: %w", coding, n, size, err)
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("send end of body with %s: %w", coding, err)
	}
	return nil
}

// onlyWriter hides the ReadFrom of an encoder, which allocates its own buffers.
type onlyWriter struct{ io.Writer }
