// Package draft fills a page with entities before the page is written to a store.
package draft

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

// ErrInvalid means that an entity cannot be on a page.
var ErrInvalid = errors.New("entity is invalid")

// A Draft is a new page that is being filled, or an addition to an existing page.
type Draft struct {
	Boundary string
	Entities int         // on the page
	Base     int64       // size of the existing body
	Hash     hash.Cloner // SHA-256 of the existing body or, after Finish, of the whole body
	Closed   bool        // whether the closing delimiter has been added
	Copies   bool        // whether bodies are copied, so that the caller may change them after Put

	Spool *Spool // holds the body of the only entity, between buf[:split] and buf[split:]
	split int

	Memory      // the added bytes
	sharedBytes int64
}

// Memory holds the content of a draft. The zero value is empty, and grows as required. Memory can be used
// again; see [Draft.Release].
type Memory struct {
	buf    []byte       // without shared bodies
	shared []sharedBody // bodies that go between two pieces of buf, in order
}

// Cap returns how many bytes m can hold without growing, not counting shared bodies.
func (m Memory) Cap() int { return cap(m.buf) }

// A sharedBody is a body that is not copied to the page, so that it is in memory only once.
type sharedBody struct {
	at   int // the body precedes buf[at:]
	body []byte
}

// minSharedBody is the length, in bytes, at or above which a body is shared instead of copied.
const minSharedBody = 256

// New returns an empty page with a random boundary. The page is built in m.
func New(m Memory) Draft {
	return Draft{Boundary: page.NewBoundary(), Hash: sha256.New().(hash.Cloner), Memory: m}
}

// Append returns a draft of an addition to a page that has the given boundary, number of entities and body
// size. h must be the SHA-256 state after that body. The draft is built in m.
func Append(boundary string, entities int, size int64, h hash.Cloner, m Memory) Draft {
	return Draft{Boundary: boundary, Entities: entities, Base: size, Hash: h, Memory: m}
}

// Release drops the shared bodies, and returns the memory in which the page was built, for use by the next
// page.
func (d *Draft) Release() Memory {
	m := d.Memory
	d.Memory = Memory{}
	clear(m.shared)
	return Memory{m.buf[:0], m.shared[:0]}
}

// Size returns the size of the body including the addition, in bytes.
func (d *Draft) Size() int64 { return d.Base + d.Added() }

// Added returns the size of the addition, in bytes.
func (d *Draft) Added() int64 {
	n := int64(len(d.buf)) + d.sharedBytes
	if d.Spool != nil {
		n += d.Spool.size
	}
	return n
}

// Put adds a part with the given header and body; if s is not nil, the body is that of the spool. It returns
// false, and adds nothing, if the entity belongs on another page, because it would make this page larger than
// limit, or because its body contains the boundary, with which it could forge entities. The first entity of a
// page always belongs on that page. A page with a spooled body has no other entity, and is closed. An error
// that matches [ErrInvalid] is caused by the entity.
func (d *Draft) Put(h page.Header, body []byte, s *Spool, limit int64) (bool, error) {
	if s != nil && d.Entities > 0 {
		return false, nil
	}
	before := *d
	for {
		err := d.encode(h, body, s)
		switch {
		case errors.Is(err, page.ErrBoundaryInBody) && d.Entities == 0:
			d.Boundary = page.NewBoundary()
			continue
		case errors.Is(err, page.ErrBoundaryInBody):
			return false, nil
		case err == nil && d.Entities > 0 && d.Size() > limit:
			*d = before
			return false, nil
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		d.Entities++
		if s != nil {
			d.Close()
		}
		return true, nil
	}
}

// encode adds a part, or nothing if it returns an error.
func (d *Draft) encode(h page.Header, body []byte, s *Spool) error {
	if s == nil && (d.Copies || len(body) < minSharedBody) {
		buf, err := page.AppendPart(d.buf, d.Boundary, h, body)
		if err == nil {
			d.buf = buf
		}
		return err
	}
	size := int64(len(body))
	if s != nil {
		size = s.size
	}
	buf, err := page.AppendPartHeader(d.buf, d.Boundary, h, size)
	switch {
	case err != nil:
		return err
	case s != nil:
		d.split, d.Spool = len(buf), s
	case page.Occurs(d.Boundary, body):
		return page.ErrBoundaryInBody
	default:
		d.shared = append(d.shared, sharedBody{len(buf), body})
		d.sharedBytes += size
	}
	d.buf = append(buf, "\r\n"...)
	return nil
}

// Close ends the page with its closing delimiter.
func (d *Draft) Close() {
	d.buf = page.AppendClose(d.buf, d.Boundary)
	d.Closed = true
}

// Body returns the addition. If the addition ends the page, the Body tells drivers that nothing follows. If
// it is also the whole page, the Body gives drivers the SHA-256 that Finish computes.
func (d *Draft) Body() storage.Body {
	if d.Spool != nil {
		return storage.Concat(storage.Bytes(d.buf[:d.split]), d.Spool, storage.Bytes(d.buf[d.split:]))
	}
	body := storage.Bytes(d.pieces()...)
	switch {
	case d.Closed && d.Base == 0:
		return storage.WithSHA256(body, d.Hash)
	case d.Closed:
		return storage.Last(body)
	}
	return body
}

// pieces returns the addition, for a page without a spooled body.
func (d *Draft) pieces() [][]byte {
	pieces, done := make([][]byte, 0, 2*len(d.shared)+1), 0
	for _, a := range d.shared {
		pieces = append(pieces, d.buf[done:a.at], a.body)
		done = a.at
	}
	return append(pieces, d.buf[done:])
}

// Finish returns the SHA-256 of the whole body, in hex. It reads a spooled body, and checks that
// it does not contain the boundary.
func (d *Draft) Finish() (string, error) {
	if d.Spool == nil {
		done := 0
		for _, a := range d.shared {
			d.Hash.Write(d.buf[done:a.at])
			d.Hash.Write(a.body)
			done = a.at
		}
		d.Hash.Write(d.buf[done:])
		return hexSum(d.Hash), nil
	}
	body, err := d.Body().Open()
	if err != nil {
		return "", fmt.Errorf("read spooled body: %w", err)
	}
	defer body.Close()
	boundary := scanner{want: []byte("--" + d.Boundary)}
	if _, err := io.Copy(io.MultiWriter(d.Hash, &boundary), body); err != nil {
		return "", fmt.Errorf("read spooled body: %w", err)
	}
	// The boundary must occur once at the beginning of the page and once at its end. The boundary was chosen
	// after the body had been received, so the sender of the body cannot have known it.
	if boundary.count != 2 {
		return "", fmt.Errorf("%w: %w", ErrInvalid, page.ErrBoundaryInBody)
	}
	return hexSum(d.Hash), nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// A scanner counts the occurrences of a string in the bytes written to it.
type scanner struct {
	want  []byte
	tail  []byte // the end of the previous bytes, shorter than want
	count int
}

func (s *scanner) Write(b []byte) (int, error) {
	keep := len(s.want) - 1
	// An occurrence may begin in tail and end in b.
	seam := append(s.tail, b[:min(len(b), keep)]...)
	s.count += bytes.Count(seam, s.want) + bytes.Count(b, s.want)
	if len(b) >= keep {
		seam = b
	}
	s.tail = slices.Clone(seam[max(0, len(seam)-keep):])
	return len(b), nil
}
