package represent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
)

// A Representation is one state of a resource, without a content coding.
type Representation struct {
	ContentType string
	Tag         string    // names the state; part of the ETag
	Sum         string    // SHA-256 of the whole, in hex, if it never changes; otherwise ""
	Modified    time.Time // in whole seconds
	Changing    bool      // several states may have the same Modified
	Immutable   bool      // there will be no other state
	Hosted      bool      // contains the Host of the request
	Links       []string  // values of Link
	Chain       string    // value of [feed.ChainHeader], or ""
	Location    string    // Content-Location, if it differs from the request's URL

	Fields *Fields // of [Sender.Fields]; nil unless the representation is shared by requests

	Stored int64  // size in the store, in bytes
	Tail   string // follows the stored bytes
	// Digest returns the SHA-256 of the whole, or nil if it is not available. An error means
	// that the store is corrupt.
	Digest func(context.Context) ([]byte, error)
}

func (rep *Representation) size() int64 { return rep.Stored + int64(len(rep.Tail)) }

// modifiedAfter reports whether there may be a newer state than one with the given
// Last-Modified.
func (rep *Representation) modifiedAfter(since time.Time) bool {
	return rep.Modified.After(since) || rep.Changing && rep.Modified.Equal(since)
}

// A Resource is what a URL identifies.
type Resource interface {
	// Stat returns the current representation.
	Stat(context.Context) (*Representation, error)
	// Open returns the current representation, and opens its stored bytes from offset on: as many as length says, or
	// all if length is negative.
	Open(ctx context.Context, offset, length int64) (*Representation, io.ReadCloser, error)
}

// A Sender sends representations. Its methods may be called concurrently.
type Sender struct {
	coders    *coders
	encodings *encodings
	private   bool
}

// Config configures a Sender.
type Config struct {
	// MaxCoded limits how many responses are compressed at once.
	MaxCoded int
	// MaxEncoded limits the memory for compressed representations that never change, in bytes; with 0 they are not kept.
	MaxEncoded int64
	// Private forbids shared caches to keep anything, since reading requires credentials.
	Private bool
}

// NewSender returns a Sender.
func NewSender(c Config) *Sender {
	coders := newCoders(c.MaxCoded)
	return &Sender{coders: coders, encodings: newEncodings(c.MaxEncoded, coders), private: c.Private}
}

// maxReopened limits how often a range is opened again because the resource has changed since the range was computed.
const maxReopened = 10

// Send answers a GET or HEAD. rep is the current representation if the caller has it, or nil. The error is a
// [problem.Error], an error from the resource or, if the header has been written, one that says that the response is
// incomplete.
func (s *Sender) Send(w http.ResponseWriter, r *http.Request, res Resource, rep *Representation) error {
	coding, ok := Coding(r)
	if !ok {
		return problem.New(http.StatusNotAcceptable, "not-acceptable", "Accept-Encoding excludes zstd, gzip and identity")
	}
	if rep == nil && needsState(r) {
		var err error
		if rep, err = res.Stat(r.Context()); err != nil {
			return err
		}
	}
	for range maxReopened {
		part := span{length: -1}
		if rep != nil {
			var answered bool
			var err error
			if part, answered, err = s.answer(w, r, rep, coding); answered || err != nil {
				return err
			}
		}
		offset, length := part.offset, int64(-1)
		if part.partial {
			offset, length = rep.storedPart(part)
			if offset > 0 && part.reaches(rep.size()) {
				length = -1 // includes what is added before the resource is opened
			}
		}
		opened, body, err := res.Open(r.Context(), offset, length)
		if err != nil {
			return err
		}
		if part.partial && opened.Tag != rep.Tag {
			now, answered, err := s.answer(w, r, opened, coding)
			if answered || err != nil {
				_ = body.Close() // not read
				return err
			}
			at, _ := opened.storedPart(now)
			if length >= 0 || at != offset || !now.partial || !now.reaches(opened.size()) {
				_ = body.Close() // not read
				rep = opened
				continue
			}
			part = now
		}
		defer body.Close()
		if !part.partial {
			part.length = opened.size()
		}
		if coding != "" && opened.Sum != "" {
			if err := s.serveEncoded(w, r, opened, coding, body); !errors.Is(err, errNotEncoded) {
				return err
			}
		}
		if coding != "" {
			var release func()
			if coding, release, err = s.coders.acquire(r, coding); err != nil {
				return err
			}
			defer release()
		}
		if err := s.writeHeader(w, r, opened, coding, part); err != nil {
			return err
		}
		return s.writeBody(w, opened, coding, part, body)
	}
	return problem.New(http.StatusServiceUnavailable, "busy", "the page changes too fast to send a range of it")
}

// serveEncoded answers a GET with an encoded page that is kept for other requests. The error matches errNotEncoded if
// that is not possible.
func (s *Sender) serveEncoded(w http.ResponseWriter, r *http.Request, rep *Representation, coding string, body io.Reader) error {
	encoded, err := s.encodings.get(r.Context(), encodingKey{rep.Sum, coding}, rep.size(), body)
	if err != nil {
		return err
	}
	defer s.encodings.release(encoded)
	w.Header().Set("Content-Length", strconv.FormatInt(encoded.body.size, 10))
	if err := s.writeHeader(w, r, rep, coding, span{}); err != nil {
		return err
	}
	if n, err := encoded.body.WriteTo(w); err != nil {
		return fmt.Errorf("send body with %s at byte %d of %d: %w", coding, n, encoded.body.size, err)
	}
	return nil
}

// needsState reports whether a request might be answered without the body.
func needsState(r *http.Request) bool {
	if r.Method == http.MethodHead {
		return true
	}
	for _, name := range []string{"If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since", "Range"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// answer answers requests that need no body. Otherwise it returns the part of the
// representation to send.
func (s *Sender) answer(w http.ResponseWriter, r *http.Request, rep *Representation, coding string) (part span, answered bool, err error) {
	etag := rep.ETag(coding)
	switch Precondition(r, rep, etag) {
	case http.StatusNotModified:
		s.fields(rep).set(w.Header(), coding)
		w.WriteHeader(http.StatusNotModified)
		return part, true, nil
	case http.StatusPreconditionFailed:
		return part, false, problem.New(http.StatusPreconditionFailed, "precondition", "the ETag of the page is now %s", etag)
	}
	part = span{length: rep.size()}
	if header := r.Header["Range"]; r.Method == http.MethodGet && len(header) == 1 && coding == "" && rangeHolds(r, rep, etag) {
		var ok bool
		if part, ok = parseRange(header[0], rep.size()); !ok {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", rep.size()))
			return part, false, problem.New(http.StatusRequestedRangeNotSatisfiable, "range", "the page has %d bytes", rep.size())
		}
	}
	if r.Method == http.MethodHead {
		return part, true, s.writeHeader(w, r, rep, coding, part)
	}
	return part, false, nil
}

// ETag returns the entity tag in the given content coding, or without one if coding is "".
func (rep *Representation) ETag(coding string) string {
	if coding == "" {
		return `"` + rep.Tag + `"`
	}
	return `"` + rep.Tag + "-" + coding + `"`
}

// CacheControl returns the value of the field. It lets shared caches keep only what is the same for every client. A
// representation that contains the request's Host is not the same for every client: a client could send a Host that is
// not part of the cache's key.
func (s *Sender) CacheControl(rep *Representation) string {
	var directives []string
	if rep.Hosted || s.private {
		directives = append(directives, "private")
	} else if rep.Immutable {
		directives = append(directives, "public")
	}
	if rep.Immutable {
		directives = append(directives, "max-age=31536000", "immutable")
	} else {
		directives = append(directives, "no-cache")
	}
	return strings.Join(directives, ", ")
}

// writeHeader sends the header of a 200 or 206. Ranges and digests exist only without
// a coding; with one, the size is not known beforehand.
func (s *Sender) writeHeader(w http.ResponseWriter, r *http.Request, rep *Representation, coding string, part span) error {
	fields := s.fields(rep)
	digest := fields.digest
	if coding == "" && digest == nil {
		sum, err := rep.Digest(r.Context())
		if err != nil {
			return err
		}
		digest = digestField(sum)
	}
	h := w.Header()
	fields.set(h, coding)
	h["Content-Type"] = fields.contentType
	status := http.StatusOK
	if coding != "" {
		h.Set("Content-Encoding", coding)
	} else {
		h["Accept-Ranges"] = fields.ranges
		h["Content-Length"] = fields.length
		if digest != nil {
			h["Repr-Digest"] = digest
		}
	}
	if part.partial {
		h.Set("Content-Length", strconv.FormatInt(part.length, 10))
		h.Set("Content-Range", part.contentRange(rep.size()))
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	return nil
}

// storedPart returns the part of a span that is in the store.
func (rep *Representation) storedPart(part span) (offset, length int64) {
	offset = min(part.offset, rep.Stored)
	return offset, min(part.offset+part.length, rep.Stored) - offset
}

// writeBody sends the body and the part of the tail that is in the span.
func (s *Sender) writeBody(w http.ResponseWriter, rep *Representation, coding string, part span, body io.Reader) error {
	offset, length := rep.storedPart(part)
	tail := rep.Tail[max(part.offset-rep.Stored, 0):max(part.offset+part.length-rep.Stored, 0)]
	if coding != "" {
		return s.coders.write(w, coding, io.MultiReader(body, strings.NewReader(tail)), rep.size())
	}
	n, err := io.Copy(w, body)
	if err != nil {
		return fmt.Errorf("send body at byte %d of %d: %w", offset+n, offset+length, err)
	}
	if n != length {
		return fmt.Errorf("send body: the store returned %d bytes, not %d: %w", n, length, io.ErrUnexpectedEOF)
	}
	if _, err := io.WriteString(w, tail); err != nil {
		return fmt.Errorf("send end of body: %w", err)
	}
	return nil
}
