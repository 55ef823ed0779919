package feed

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/page"
)

// These are the names of the headers for which Entity has a field of its own.
const (
	lastModified    = "Last-Modified"
	contentType     = "Content-Type"
	contentID       = "Content-ID"
	operationType   = "Operation-Type"
	contentLocation = "Content-Location"
	contentLength   = "Content-Length"
)

// Parse fills e from a part. Content-Type is required; in a feed (if feedEntity is true), Last-Modified, Content-ID and
// Operation-Type are required as well. The specification requires Last-Modified in a snapshot too, but some producers
// omit it; LastModified is then the zero time. A DELETE without Content-Type is text/plain (RFC 2046, section 5.1). If a
// field is missing or invalid, the error is a [*HeaderError] and the contents of e are unspecified.
//
// Parse may be called with the same e for each part: it reuses the array of e.Header, and strings whose values are the
// same again. Strings never point into the part. Body and Stream are those of the part, and are valid as long as the
// part is.
func Parse(e *Entity, p *page.Part, feedEntity bool) error {
	old := *e
	*e = Entity{Header: old.Header[:0], Body: p.Body, Stream: p.Stream, Size: -1}
	var text texts
	text.size(p.Header)
	var seen fieldSet
	for _, f := range p.Header {
		name := knownName(f.Name)
		if name != "" && !seen.add(name) {
			if name == contentLength && bytes.Equal(f.Value, p.Header.Get(name)) {
				continue // RFC 9110, section 8.6
			}
			return headerError(p, name, f.Value, fmt.Errorf("%w: occurs twice in one entity", ErrInvalidHeader))
		}
		switch name {
		case lastModified:
			t, ok := parseDate(f.Value)
			if !ok {
				return headerError(p, name, f.Value, errDate())
			}
			e.LastModified = t
		case operationType:
			o, ok := parseOperation(f.Value)
			if !ok {
				return headerError(p, name, f.Value, errOperation())
			}
			e.Operation = o
		case contentType:
			e.ContentType = text.copy(f.Value, old.ContentType)
		case contentID:
			e.ContentID = text.copy(f.Value, old.ContentID)
		case contentLocation:
			e.ContentLocation = text.copy(f.Value, old.ContentLocation)
		case contentLength:
			if n, ok := number(f.Value); ok && len(f.Value) > 0 && len(f.Value) <= 18 {
				e.Size = int64(n)
			}
		default:
			var same Field
			if i := len(e.Header); i < len(old.Header) {
				same = old.Header[i] // this element has not been overwritten yet
			}
			e.Header = append(e.Header, Field{text.copy(f.Name, same.Name), text.copy(f.Value, same.Value)})
		}
	}
	e.ContentType = e.mediaType()
	if name := e.missing(feedEntity); name != "" {
		return headerError(p, name, nil, fmt.Errorf("%w: add it to the entity", ErrMissingHeader))
	}
	return nil
}

func headerError(p *page.Part, name string, value []byte, err error) error {
	return &HeaderError{Part: p.Index, Offset: p.Offset, Name: name, Value: string(value), Err: err}
}

// missing returns the name of the first required header that e lacks, or "".
func (e *Entity) missing(feedEntity bool) string {
	switch {
	case feedEntity && e.LastModified.IsZero():
		return lastModified
	case e.ContentType == "":
		return contentType
	case feedEntity && e.ContentID == "":
		return contentID
	case feedEntity && e.Operation == "":
		return operationType
	}
	return ""
}

func parseDate(value []byte) (time.Time, bool) {
	if t, ok := parseFixdate(value); ok {
		return t, true
	}
	return parseOtherDate(string(value))
}

// knownName returns the canonical name of a header, or "" if Entity has no field of its own for it.
func knownName[T string | []byte](name T) string {
	known := ""
	switch len(name) {
	case len(contentID):
		known = contentID
	case len(contentType):
		known = contentType
	case len(lastModified):
		known = lastModified
	case len(operationType):
		if lower(name[0]) == 'o' {
			known = operationType
		} else {
			known = contentLength
		}
	case len(contentLocation):
		known = contentLocation
	}
	if !foldEqual(name, known) {
		return ""
	}
	return known
}

// A fieldSet holds names returned by knownName.
type fieldSet [6]string

// add adds a name, and reports whether it is new.
func (s *fieldSet) add(name string) bool {
	for i := range s {
		switch s[i] {
		case "":
			s[i] = name
			return true
		case name:
			return false
		}
	}
	return true
}

// texts copies the names and values of one header into a single allocation.
type texts struct {
	all strings.Builder
	max int
}

// size adds the size of the names and values of h to t.max, the capacity that copy allocates.
func (t *texts) size(h page.Header) {
	for _, f := range h {
		t.max += len(f.Name) + len(f.Value)
	}
}

// copy returns src as a string, reusing old if it is equal.
func (t *texts) copy(src []byte, old string) string {
	if string(src) == old {
		return old
	}
	if t.all.Cap() == 0 {
		t.all.Grow(t.max)
	}
	start := t.all.Len()
	t.all.Write(src)
	return t.all.String()[start:]
}
