package feed

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/page"
)

// These limits, in bytes, are enforced by [Entity.Check]. An entity within them can be read by any
// reader with the default limits of package page.
const (
	MaxContentID = 1024
	MaxHeader    = 32 << 10 // of all names and values together
)

// deleteType is the media type of a DELETE that has no ContentType: the default for any part (RFC 2046,
// section 5.1). It is written explicitly, since the specification requires the field.
const deleteType = "text/plain; charset=us-ascii"

// mediaType returns the Content-Type to write.
func (e *Entity) mediaType() string {
	if e.ContentType == "" && e.Operation == Delete {
		return deleteType
	}
	return e.ContentType
}

// AppendHeader appends the header of e to dst and returns it: Last-Modified,
// Content-Type, Content-ID, Operation-Type and Content-Location (the last three
// only if set), then the other fields in order. Content-Length is left to package
// page. The fields share one allocation.
func (e *Entity) AppendHeader(dst page.Header) page.Header {
	_, size := e.HeaderSize()
	b := HeaderBuffer{fields: dst, text: make([]byte, 0, size)}
	var date [len(http.TimeFormat)]byte
	b.add(e, e.LastModified.UTC().AppendFormat(date[:0], http.TimeFormat))
	return b.fields
}

// A HeaderBuffer builds the headers of entities, one at a time, without allocating. The zero
// value is ready to use.
type HeaderBuffer struct {
	fields page.Header
	text   []byte // holds all names and values, one after the other
	start  int    // where the name or value that is being written starts in text
	date   []byte // the previous Last-Modified
	second int64  // the Unix time of date
}

// Header returns the header of e, with the fields of [Entity.AppendHeader] but the given Last-Modified.
// It is valid until the next call.
func (b *HeaderBuffer) Header(e *Entity, lastModified time.Time) page.Header {
	if second := lastModified.Unix(); b.date == nil || second != b.second {
		b.date, b.second = lastModified.UTC().AppendFormat(b.date[:0], http.TimeFormat), second
	}
	b.fields, b.text, b.start = b.fields[:0], b.text[:0], 0
	b.add(e, b.date)
	return b.fields
}

// add appends the header of an entity.
func (b *HeaderBuffer) add(e *Entity, date []byte) {
	b.name(lastModified)
	b.text = append(b.text, date...)
	b.value()
	b.field(contentType, e.mediaType())
	if e.ContentID != "" {
		b.field(contentID, e.ContentID)
	}
	if e.Operation != "" {
		b.name(operationType)
		b.text = append(append(b.text, operationPrefix...), e.Operation...)
		b.value()
	}
	if e.ContentLocation != "" {
		b.field(contentLocation, e.ContentLocation)
	}
	for _, f := range e.Header {
		b.field(f.Name, f.Value)
	}
}

// HeaderSize returns the number of fields that [Entity.AppendHeader] appends, and the
// total size of their names and values in bytes.
func (e *Entity) HeaderSize() (fields, size int) {
	add := func(name, value int) {
		fields++
		size += name + value
	}
	add(len(lastModified), len(http.TimeFormat))
	add(len(contentType), len(e.mediaType()))
	if e.ContentID != "" {
		add(len(contentID), len(e.ContentID))
	}
	if e.Operation != "" {
		add(len(operationType), len(operationPrefix)+len(e.Operation))
	}
	if e.ContentLocation != "" {
		add(len(contentLocation), len(e.ContentLocation))
	}
	for _, f := range e.Header {
		add(len(f.Name), len(f.Value))
	}
	return fields, size
}

func (b *HeaderBuffer) cut() []byte {
	piece := b.text[b.start:len(b.text):len(b.text)]
	b.start = len(b.text)
	return piece
}

func (b *HeaderBuffer) name(name string) {
	b.text = append(b.text, name...)
	b.fields = append(b.fields, page.Field{Name: b.cut()})
}

func (b *HeaderBuffer) value() { b.fields[len(b.fields)-1].Value = b.cut() }

func (b *HeaderBuffer) field(name, value string) {
	b.name(name)
	b.text = append(b.text, value...)
	b.value()
}

// Check checks that e can be published in a feed (if feedEntity is true) or in a snapshot, and read
// back unchanged. The error is a [*HeaderError]. Check does not look at LastModified, and allows an
// empty ContentID in a feed, since the producer sets both.
func (e *Entity) Check(feedEntity bool) error {
	if e.mediaType() == "" {
		return refuse(contentType, "", ErrMissingHeader, "give the media type of the body, such as application/json")
	}
	if err := checkValue(contentType, e.ContentType); err != nil {
		return err
	}
	if err := checkURI(contentID, e.ContentID); err != nil {
		return err
	}
	if len(e.ContentID) > MaxContentID {
		return refuse(contentID, e.ContentID, ErrInvalidHeader, fmt.Sprintf("longer than %d bytes", MaxContentID))
	}
	if err := checkURI(contentLocation, e.ContentLocation); err != nil {
		return err
	}
	if err := e.checkOperation(feedEntity); err != nil {
		return err
	}
	for _, f := range e.Header {
		if err := checkField(f); err != nil {
			return err
		}
	}
	if _, n := e.HeaderSize(); n > MaxHeader {
		return refuse("block", "", ErrInvalidHeader, fmt.Sprintf("%d bytes in all, more than %d", n, MaxHeader))
	}
	return nil
}

func (e *Entity) checkOperation(feedEntity bool) error {
	switch e.Operation {
	case Put, Patch, Delete:
		return nil
	case "":
		if !feedEntity {
			return nil
		}
		return refuse(operationType, "", ErrMissingHeader, "give PUT, PATCH or DELETE")
	}
	return refuse(operationType, string(e.Operation), ErrInvalidHeader, "give PUT, PATCH or DELETE")
}

// checkField checks a field in Entity.Header.
func checkField(f Field) error {
	if f.Name == "" {
		return refuse(`""`, f.Value, ErrInvalidHeader, "the name is empty")
	}
	for i := range len(f.Name) {
		if !isToken(f.Name[i]) {
			return refuse(fmt.Sprintf("%.100q", f.Name), f.Value, ErrInvalidHeader, "the name has a character that is not allowed (RFC 9110, section 5.6.2)")
		}
	}
	if knownName(f.Name) != "" {
		return refuse(f.Name, f.Value, ErrInvalidHeader, "set the entity's field of that name instead")
	}
	return checkValue(f.Name, f.Value)
}

// checkValue checks that readers will get the value unchanged: it must be valid UTF-8
// without control characters other than tab (RFC 9110, section 5.5), and neither begin
// nor end with white space.
func checkValue(name, value string) error {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return refuse(name, value, ErrInvalidHeader, fmt.Sprintf("byte %d is the control character %q", i, c))
		}
	}
	if !utf8.ValidString(value) {
		return refuse(name, value, ErrInvalidHeader, "it is not valid UTF-8")
	}
	if trim(value) != value {
		return refuse(name, value, ErrInvalidHeader, "it begins or ends with white space")
	}
	return nil
}

// checkURI checks that a value consists of printable ASCII other than space.
func checkURI(name, value string) error {
	printable := 0
	for printable < len(value) && ' ' < value[printable] && value[printable] <= '~' {
		printable++
	}
	for i, c := range value[printable:] {
		i += printable
		switch {
		case c == utf8.RuneError && !utf8.ValidString(value):
			return refuse(name, value, ErrInvalidHeader, fmt.Sprintf("byte %d, 0x%02x, is not printable ASCII; percent-encode it", i, value[i]))
		case c <= ' ' || c > '~':
			return refuse(name, value, ErrInvalidHeader, fmt.Sprintf("character %q at byte %d is not printable ASCII; percent-encode it", c, i))
		}
	}
	return nil
}

// isToken reports whether c may occur in a field name (RFC 9110, section 5.6.2).
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func refuse(name, value string, cause error, why string) error {
	return &HeaderError{Part: -1, Name: name, Value: value, Err: fmt.Errorf("%w: %s", cause, why)}
}
