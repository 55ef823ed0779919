package producer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// A draft is a page that is being filled, or what is added to one that exists.
type draft struct {
	boundary     string
	entities     int          // on the page
	base         int64        // size of the body that exists
	hash         hash.Cloner  // SHA-256 of the body that exists; of the whole after finish
	buf          []byte       // what is added, without sharedBodies
	sharedBodies []sharedBody // bodies that belong between two pieces of buf, in order
	beside       int64        // their bytes
	spool        *spool       // the body of the page's one entity, between buf[:split] and buf[split:]
	split        int          //
	closed       bool         // the closing delimiter is in buf
	copies       bool         // bodies are copied: their owner may change them after put
}

// A sharedBody is a body that is not copied to the page, so that it is in memory only once.
type sharedBody struct {
	at   int // it comes before buf[at:]
	body []byte
}

// minSharedBody is the length in bytes from which a body is shared instead of copied.
const minSharedBody = 256

// size returns the size of the body with what is added, in bytes.
func (d *draft) size() int64 { return d.base + d.added() }

// added returns the size of what is added, in bytes.
func (d *draft) added() int64 {
	n := int64(len(d.buf)) + d.beside
	if d.spool != nil {
		n += d.spool.size
	}
	return n
}

// put adds a part with a body, which is in the spool if there is one. It reports
// false, and adds nothing, if the entity does not belong on the page: with it the
// page would be larger than limit, or it holds the page's boundary, by which it
// could forge entities. The first entity of a page always belongs there. A page
// with a spooled body has no other entity, and is closed.
func (d *draft) put(h page.Header, body []byte, s *spool, limit int64) (bool, error) {
	if s != nil && d.entities > 0 {
		return false, nil
	}
	before := *d
	for {
		err := d.encode(h, body, s)
		switch {
		case errors.Is(err, page.ErrBoundaryInBody) && d.entities == 0:
			d.boundary = page.NewBoundary()
			continue
		case errors.Is(err, page.ErrBoundaryInBody):
			return false, nil
		case err == nil && d.entities > 0 && d.size() > limit:
			*d = before
			return false, nil
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		d.entities++
		if s != nil {
			d.close()
		}
		return true, nil
	}
}

// encode adds a part. With an error nothing is added.
func (d *draft) encode(h page.Header, body []byte, s *spool) error {
	if s == nil && (d.copies || len(body) < minSharedBody) {
		buf, err := page.AppendPart(d.buf, d.boundary, h, body)
		if err == nil {
			d.buf = buf
		}
		return err
	}
	size := int64(len(body))
	if s != nil {
		size = s.size
	}
	buf, err := page.AppendPartHeader(d.buf, d.boundary, h, size)
	switch {
	case err != nil:
		return err
	case s != nil:
		d.split, d.spool = len(buf), s
	case page.Occurs(d.boundary, body):
		return page.ErrBoundaryInBody
	default:
		d.sharedBodies = append(d.sharedBodies, sharedBody{len(buf), body})
		d.beside += size
	}
	d.buf = append(buf, "\r\n"...)
	return nil
}

// close ends the page with its closing delimiter.
func (d *draft) close() {
	d.buf = page.AppendClose(d.buf, d.boundary)
	d.closed = true
}

// body is what is added. Nothing comes after that of a closed page; if it is all of
// the page, it comes with its digest, if finish has made it.
func (d *draft) body() storage.Body {
	if d.spool != nil {
		return storage.Concat(storage.Bytes(d.buf[:d.split]), d.spool, storage.Bytes(d.buf[d.split:]))
	}
	body := storage.Bytes(d.pieces()...)
	switch {
	case d.closed && d.base == 0:
		return storage.WithSHA256(body, d.hash)
	case d.closed:
		return storage.Last(body)
	}
	return body
}

// pieces returns what is added, in memory.
func (d *draft) pieces() [][]byte {
	pieces, done := make([][]byte, 0, 2*len(d.sharedBodies)+1), 0
	for _, a := range d.sharedBodies {
		pieces = append(pieces, d.buf[done:a.at], a.body)
		done = a.at
	}
	return append(pieces, d.buf[done:])
}

// finish returns the SHA-256 of the whole body, in hex. It reads a spooled body,
// and makes sure that the boundary does not occur in it.
func (d *draft) finish() (string, error) {
	if d.spool == nil {
		for _, piece := range d.pieces() {
			d.hash.Write(piece)
		}
		return hexSum(d.hash), nil
	}
	body, err := d.body().Open()
	if err != nil {
		return "", fmt.Errorf("read spooled body: %w", err)
	}
	defer body.Close()
	boundary := scanner{want: []byte("--" + d.boundary)}
	if _, err := io.Copy(io.MultiWriter(d.hash, &boundary), body); err != nil {
		return "", fmt.Errorf("read spooled body: %w", err)
	}
	// At the beginning and at the end of the page, and nowhere else. The boundary
	// was drawn after the body had been received, so no sender can have known it.
	if boundary.count != 2 {
		return "", fmt.Errorf("%w: %w", ErrInvalid, page.ErrBoundaryInBody)
	}
	return hexSum(d.hash), nil
}

func newHash() hash.Cloner { return sha256.New().(hash.Cloner) }

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// A scanner counts how often a text occurs in what is written to it.
type scanner struct {
	want  []byte
	tail  []byte // the end of what was written before, too short to hold want
	count int
}

func (s *scanner) Write(b []byte) (int, error) {
	keep := len(s.want) - 1
	// The text may begin in the tail and end in b.
	seam := append(s.tail, b[:min(len(b), keep)]...)
	s.count += bytes.Count(seam, s.want) + bytes.Count(b, s.want)
	if len(b) >= keep {
		seam = b
	}
	s.tail = slices.Clone(seam[max(0, len(seam)-keep):])
	return len(b), nil
}
