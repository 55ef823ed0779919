package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

type pageCheck struct {
	*visit
	url   string
	index int // number of the page, from 0

	was    PageState // the page as seen on an earlier visit, if known is set
	known  bool
	now    PageState
	prefix Sum // Digest of the first was.Entities entities

	whole  bool      // the page could be read to its closing delimiter
	newest time.Time // Last-Modified of the newest entity
	dated  bool      // every entity has a Last-Modified

	delimiters lineSearch // finds delimiters in the body of an entity
	bodies     io.Writer  // writes bodies to the digest and to delimiters
}

// entities checks the parts of a page. It returns only errors of the check itself; violations are
// added to the report.
func (c *pageCheck) entities(body *bodyReader, boundary string) error {
	digest := sha256.New()
	digest.Write([]byte(boundary))
	c.reader.Reset(body, boundary)
	c.delimiters.pattern = []byte("\n--" + boundary)
	c.bodies = io.MultiWriter(digest, &c.delimiters)
	c.dated = true
	if c.was.Entities == 0 {
		c.prefix = Sum(digest.Sum(nil))
	}
	for part, err := range c.reader.Parts() {
		if err == nil {
			err = c.entity(digest, part)
		}
		var violation *page.Error
		switch {
		case err == nil:
		case body.err != nil: // the body ended early, which the caller reports as unreachable
			return nil
		case errors.As(err, &violation):
			c.report.addPart(PageFormat, c.url, violation.Part, violation.Offset, "%v", violation.Err)
			return nil
		default:
			return err
		}
		c.report.Entities++
		if c.now.Entities++; c.now.Entities == c.was.Entities {
			c.prefix = Sum(digest.Sum(nil))
		}
	}
	c.whole = true
	c.now.Digest = Sum(digest.Sum(nil))
	return nil
}

// entity checks one part and writes it to the digest. The error is a [*page.Error] or an error of
// the check itself.
func (c *pageCheck) entity(digest hash.Hash, part *page.Part) error {
	at := partCheck{pageCheck: c, part: part.Index, offset: part.Offset, header: part.Header}
	at.modified()
	at.required("Content-Type")
	at.operation()
	if c.isFeed() {
		if id, ok := at.required("Content-ID"); ok {
			if err := c.ids.add(id, c.index, part.Index, part.Offset); err != nil {
				return err
			}
		}
	}
	c.scratch = appendFramed(c.scratch[:0], part.Header)
	digest.Write(c.scratch)
	declared, hasLength := at.once("Content-Length")
	declared = bytes.Clone(declared) // reading a stream may move the part's buffer
	c.delimiters.reset()
	size, err := copyBody(c.bodies, part)
	if err != nil {
		return err
	}
	digest.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
	if line := c.delimiters.found; line >= 0 {
		at.report.addPart(PageFormat, c.url, part.Index, part.Offset,
			"its body has a line, at byte %d, that begins with the page's delimiter: readers that search for delimiters see a different body", line)
	}
	if hasLength && string(declared) != strconv.FormatInt(size, 10) {
		at.violates(ContentLength, "its Content-Length is %q, but its body has %d bytes", declared, size)
	}
	return nil
}

// appendFramed appends an unambiguous encoding of a header to dst.
func appendFramed(dst []byte, h page.Header) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(h)))
	for _, f := range h {
		dst = append(binary.AppendUvarint(dst, uint64(len(f.Name))), f.Name...)
		dst = append(binary.AppendUvarint(dst, uint64(len(f.Value))), f.Value...)
	}
	return dst
}

func copyBody(w io.Writer, part *page.Part) (size int64, err error) {
	if part.Stream != nil {
		return io.Copy(w, part.Stream)
	}
	n, err := w.Write(part.Body)
	return int64(n), err
}

// finish makes the checks for which the whole page must have been read.
func (c *pageCheck) finish() {
	if c.isFeed() && c.whole && c.dated && !c.now.LastModified.IsZero() && !c.now.LastModified.Equal(c.newest) {
		c.report.add(PageTime, c.url, "its Last-Modified is %s, but that of its newest entity is %s",
			feed.FormatTime(c.now.LastModified), feed.FormatTime(c.newest))
	}
	if c.known && (c.whole || c.was.Final) {
		if text := change(c.was, c.now, c.prefix); text != "" {
			c.report.add(Changed, c.url, "%s", text)
		}
	}
	if c.whole {
		c.visit.whole++
	}
	if c.whole && c.report.State != nil {
		c.report.State.Pages = append(c.report.State.Pages, c.now)
	}
}

// A partCheck checks the header of an entity.
type partCheck struct {
	*pageCheck
	part   int
	offset int64
	header page.Header
}

func (c *partCheck) violates(rule Rule, format string, args ...any) {
	c.report.addPart(rule, c.url, c.part, c.offset, format, args...)
}

// once returns the value of an optional header that may occur only once.
func (c *partCheck) once(name string) (value []byte, ok bool) {
	n := 0
	for _, f := range c.header {
		if bytes.EqualFold(f.Name, []byte(name)) {
			if n++; n == 1 {
				value = f.Value
			}
		}
	}
	if n > 1 {
		c.violates(EntityHeader, "it has %d headers %s", n, name)
	}
	return value, n > 0
}

// required returns the value of a header that must occur exactly once.
func (c *partCheck) required(name string) (value []byte, ok bool) {
	value, ok = c.once(name)
	if !ok {
		c.violates(EntityHeader, "it has no %s", name)
	} else if len(value) == 0 {
		c.violates(EntityHeader, "its %s is empty", name)
	}
	return value, len(value) > 0
}

// modified checks Last-Modified, and compares it with the Last-Modified of the previous entity.
func (c *partCheck) modified() {
	value, ok := c.required("Last-Modified")
	if !ok {
		c.dated = false
		return
	}
	t, err := feed.ParseTime(string(value))
	if err != nil {
		c.violates(EntityHeader, "its Last-Modified is %.100q, not an HTTP date", value)
		c.dated = false
		return
	}
	if day, ok := weekday(string(value), t); !ok {
		c.violates(EntityHeader, "its Last-Modified is %.100q, but that day is a %s", value, day)
	}
	c.report.saw(t)
	if c.isFeed() && t.Before(c.last) {
		c.violates(TimeOrder, "its Last-Modified is %s, earlier than that of the previous entity, %s", feed.FormatTime(t), feed.FormatTime(c.last))
	}
	c.last = t
	if t.After(c.newest) {
		c.newest = t
	}
}

func (c *partCheck) operation() {
	var value []byte
	var ok bool
	if c.isFeed() {
		value, ok = c.required("Operation-Type")
	} else {
		value, ok = c.once("Operation-Type")
	}
	if !ok {
		return
	}
	if _, err := feed.ParseOperation(string(value)); err != nil {
		c.violates(OperationType, "its Operation-Type is %s", fmt.Sprintf("%.100q", value))
	}
}
