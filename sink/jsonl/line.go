package jsonl

import (
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/segmentio/asm/base64"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink/internal/content"
)

// The buffer is written once it has flushSize bytes. It exceeds flushSize by at most one line, which may be
// long: escapes can make a body of 1 MiB six times as long.
const flushSize = 256 << 10

// Large bodies are encoded in chunks of chunkSize bytes: a multiple of three,
// so that base64 needs no padding between chunks.
const chunkSize = 192 << 10

// An encoder writes entities as lines to out, through a buffer.
type encoder struct {
	out   io.Writer
	buf   []byte
	chunk []byte // of a large body
	body  content.Reader
	// wrote is the number of bytes written to out.
	wrote int64
}

// reset empties the buffer and sets wrote to zero.
func (c *encoder) reset() {
	c.buf = c.buf[:0]
	c.wrote = 0
}

// encode appends the line of e. After an error the line is incomplete.
func (c *encoder) encode(e *feed.Entity) error {
	body, stream, size, err := c.body.Read(e)
	if err != nil {
		return err
	}
	c.buf = appendHead(c.buf, e)
	switch {
	case stream != nil:
		if err := c.encodeLarge(stream, size); err != nil {
			return err
		}
	case len(body) > 0:
		c.buf = appendBody(c.buf, e.ContentType, body)
	}
	c.buf = append(c.buf, '}', '\n')
	if len(c.buf) >= flushSize {
		return c.flush()
	}
	return nil
}

// encodeLarge writes a body that does not fit into the buffer, chunk by chunk.
func (c *encoder) encodeLarge(stream io.Reader, size int64) error {
	if c.chunk == nil {
		c.chunk = make([]byte, chunkSize)
	}
	c.buf = append(c.buf, `,"bodyBase64":"`...)
	for read := int64(0); ; {
		n, err := content.Fill(stream, c.chunk)
		read += int64(n)
		c.buf = appendBase64(c.buf, c.chunk[:n])
		if err == io.EOF {
			c.buf = append(c.buf, '"')
			return content.CheckSize(size, read)
		}
		if err != nil {
			return fmt.Errorf("read body after %d bytes: %w", read, err)
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
}

func (c *encoder) flush() error {
	n, err := c.out.Write(c.buf)
	c.wrote += int64(n)
	c.buf = c.buf[:0]
	return err
}

// appendHead appends the line up to the body.
func appendHead(dst []byte, e *feed.Entity) []byte {
	dst = content.AppendKey(append(dst, '{'), e.Key())
	dst = append(dst, `,"operation":`...)
	operation := e.Operation
	if operation == "" {
		operation = feed.Put
	}
	dst = jsonscan.AppendText(dst, string(operation))
	return content.AppendFields(append(dst, ','), e)
}

// appendBody appends a body of at least one byte.
func appendBody(dst []byte, contentType string, body []byte) []byte {
	if content.IsJSON(contentType) {
		if line, ok := jsonscan.AppendCompact(append(dst, `,"body":`...), body); ok {
			return line
		}
	} else if content.IsText(contentType) && utf8.Valid(body) {
		return jsonscan.AppendString(append(dst, `,"body":`...), body)
	}
	dst = appendBase64(append(dst, `,"bodyBase64":"`...), body)
	return append(dst, '"')
}

// appendBase64 appends b in base64, with vector instructions where there are any.
func appendBase64(dst, b []byte) []byte {
	size := base64.StdEncoding.EncodedLen(len(b))
	dst = slices.Grow(dst, size)
	dst = dst[:len(dst)+size]
	base64.StdEncoding.Encode(dst[len(dst)-size:], b)
	return dst
}
