package consumer

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// appendEntity appends an encoded entity without its body to b; see [decodeEntity].
func appendEntity(b []byte, e *feed.Entity) []byte {
	for _, text := range [...]string{e.ContentID, string(e.Operation), e.ContentType, e.ContentLocation} {
		b = appendText(b, text)
	}
	b = binary.AppendVarint(b, e.LastModified.Unix())
	b = binary.AppendUvarint(b, uint64(e.LastModified.Nanosecond()))
	b = binary.AppendUvarint(b, uint64(len(e.Header)))
	for _, f := range e.Header {
		b = appendText(appendText(b, f.Name), f.Value)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errEncoding = errors.New("encoded entity is damaged")

// decodeEntity decodes an entity and returns the bytes after it.
func decodeEntity(b []byte) (e feed.Entity, rest []byte, err error) {
	d := decoder{b: b}
	e.ContentID = d.text()
	e.Operation = feed.Operation(d.text())
	e.ContentType = d.text()
	e.ContentLocation = d.text()
	seconds, n := binary.Varint(d.b)
	d.skip(n)
	e.LastModified = time.Unix(seconds, int64(d.number())).UTC()
	for fields := d.number(); fields > 0 && d.err == nil; fields-- {
		name := d.text()
		e.Header = append(e.Header, feed.Field{Name: name, Value: d.text()})
	}
	return e, d.b, d.err
}

// A decoder reads from b until an error.
type decoder struct {
	b   []byte
	err error
}

// skip skips a number whose encoding has n bytes. If n is not positive, the encoding is damaged.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.b, d.err = nil, errEncoding
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) number() uint64 {
	value, n := binary.Uvarint(d.b)
	d.skip(n)
	return value
}

func (d *decoder) text() string {
	size := d.number()
	if size > uint64(len(d.b)) {
		d.b, d.err = nil, errEncoding
		return ""
	}
	text := string(d.b[:size])
	d.b = d.b[size:]
	return text
}
