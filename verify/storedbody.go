package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// A bodyCheck compares the body of a stored page with its metadata.
type bodyCheck struct {
	report *Report
	key    string
	page   *chain.Page

	entities    int
	first, last time.Time // in whole seconds, as they are in the body
	lastID      []byte
}

// body reads the stored body of the page. The error is about reading.
func (c *bodyCheck) body(stored io.Reader) error {
	sum := sha256.New()
	source := &bodyReader{reader: io.TeeReader(stored, sum)}
	whole := c.parts(c.page.Whole(source), source)
	source.drain()
	if source.err != nil {
		return source.err
	}
	c.report.Entities += int64(c.entities)
	c.report.Bytes += source.size
	if source.size != c.page.Size {
		c.report.add(BodyDigest, c.key, "its body should have %d bytes, and has %d", c.page.Size, source.size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != c.page.SHA256 {
		c.report.add(BodyDigest, c.key, "its metadata says SHA-256 %s, its body has %s", c.page.SHA256, got)
	}
	if whole {
		c.compare()
	}
	return nil
}

// parts reads the entities, and reports whether all could be read.
func (c *bodyCheck) parts(whole io.Reader, source *bodyReader) bool {
	reader := page.NewReader(whole, c.page.Boundary, page.ReaderOptions{MaxWhole: maxWhole})
	for part, err := range reader.Parts() {
		var violation *page.Error
		if errors.As(err, &violation) && source.err == nil {
			c.report.addPart(PageFormat, c.key, violation.Part, violation.Offset, "%v", violation.Err)
		}
		if err != nil {
			return false
		}
		c.entities++
		c.lastID = append(c.lastID[:0], part.Header.Get("Content-ID")...)
		// What cannot be read is reported by the check from outside.
		c.last, _ = feed.ParseTime(string(part.Header.Get("Last-Modified")))
		if part.Index == 0 {
			c.first = c.last
		}
	}
	return true
}

// compare compares what was read with what the metadata says.
func (c *bodyCheck) compare() {
	p := c.page
	if p.Entities != c.entities {
		c.report.add(Metadata, c.key, "its metadata says %d entities, it has %d", p.Entities, c.entities)
	}
	if !c.first.IsZero() && !feed.Truncate(p.First).Equal(c.first) {
		c.report.add(Metadata, c.key, "its metadata says that the first entity is of %v, and it is of %v", p.First, c.first)
	}
	if !c.last.IsZero() && !feed.Truncate(p.Last).Equal(c.last) {
		c.report.add(Metadata, c.key, "its metadata says that the last entity is of %v, and it is of %v", p.Last, c.last)
	}
	if !bytes.Equal(c.lastID, []byte(p.LastContentID)) {
		c.report.add(Metadata, c.key, "its metadata says that the last Content-ID is %q, and it is %q", p.LastContentID, c.lastID)
	}
}
