package consumer

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of a zstd frame, in bytes (RFC 9659).
const maxWindow = 8 << 20

// decode returns r's body without its Content-Encoding, limited to limit bytes.
func decode(r *httpResponse, limit int64) (io.ReadCloser, error) {
	body := r.body
	encoding := strings.ToLower(strings.TrimSpace(r.header.Get("Content-Encoding")))
	if r.status == http.StatusPartialContent && encoding != "" && encoding != "identity" {
		return nil, fmt.Errorf("get %s: %w: part of a page in encoding %q", shown(r.url.String()), ErrMediaType, encoding)
	}
	d := &decodedBody{raw: body, url: shown(r.url.String()), left: limit, limit: limit}
	switch encoding {
	case "", "identity":
		d.src = body
	case "gzip", "x-gzip":
		r.verified = true // by its CRC-32
		d.start = func() (io.Reader, error) { return gzip.NewReader(bufio.NewReaderSize(body, 32<<10)) }
	case "zstd":
		r.verified = true // verified by the checksums of its frames
		d.start = func() (io.Reader, error) {
			z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			d.stop = z.Close
			return z, nil
		}
	default:
		return nil, fmt.Errorf("get %s: %w: Content-Encoding %q", d.url, ErrMediaType, encoding)
	}
	return d, nil
}

// A decodedBody is a body without its Content-Encoding, limited in size.
type decodedBody struct {
	raw   io.ReadCloser
	url   string
	src   io.Reader                 // nil until the first Read of a compressed body
	start func() (io.Reader, error) // returns src; reads from raw
	stop  func()                    // releases src, if set
	left  int64
	limit int64
}

func (d *decodedBody) Read(p []byte) (int, error) {
	if d.src == nil {
		src, err := d.start()
		if err != nil {
			return 0, d.broken(err)
		}
		d.src = src
	}
	n, err := d.src.Read(p)
	if int64(n) > d.left {
		return int(d.left), fmt.Errorf("get %s: %w of %d bytes for a body", d.url, ErrTooLarge, d.limit)
	}
	d.left -= int64(n)
	if err != nil && err != io.EOF {
		err = d.broken(err)
	}
	return n, err
}

// broken returns the error for damaged compressed data: a transport error, like that of a
// connection that ends early.
func (d *decodedBody) broken(err error) error {
	switch {
	case isTransport(err):
		return err
	case err == io.EOF: // the body is empty
		err = io.ErrUnexpectedEOF
	case err != io.ErrUnexpectedEOF:
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &transportError{url: d.url, err: fmt.Errorf("decode body: %w", err)}
}

func (d *decodedBody) Close() error {
	if d.stop != nil {
		d.stop()
	}
	return d.raw.Close()
}
