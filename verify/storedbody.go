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
	end         int64     // end of the last entity, in bytes
	first, last time.Time // times of entities in whole seconds, as in the body
	lastID      []byte
}

// body checks the stored body of the page. It returns only read errors.
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
		c.report.add(BodyDigest, c.key, "its body should have %d bytes, but has %d", c.page.Size, source.size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != c.page.SHA256 {
		c.report.add(BodyDigest, c.key, "its metadata has the SHA-256 %s, but its body has %s", c.page.SHA256, got)
	}
	if whole {
		c.compare()
		c.closing(source.size)
	}
	return nil
}

// closing checks that nothing follows the entities of a page except the closing delimiter of a
// closed page. If something else did, an entity appended after it would never be seen.
func (c *bodyCheck) closing(size int64) {
	end := c.end
	if c.page.Closed {
		end += int64(len(page.AppendClose(nil, c.page.Boundary)))
	}
	if size != end {
		c.report.add(PageFormat, c.key, "its body should end at byte %d, but has %d bytes", end, size)
	}
}

// parts reads the entities and reports whether all of them could be read.
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
		if part.Stream != nil {
			if _, err := io.Copy(io.Discard, part.Stream); err != nil {
				continue // Parts yields the error in the next iteration
			}
		}
		c.entities++
		c.end = reader.Offset()
		c.lastID = append(c.lastID[:0], part.Header.Get("Content-ID")...)
		// An invalid time is reported by the check over HTTP that follows.
		c.last, _ = feed.ParseTime(string(part.Header.Get("Last-Modified")))
		if part.Index == 0 {
			c.first = c.last
		}
	}
	return true
}

// compare compares the entities with the metadata.
func (c *bodyCheck) compare() {
	p := c.page
	if p.Entities != c.entities {
		c.report.add(Metadata, c.key, "its metadata has %d entities, but its body has %d", p.Entities, c.entities)
	}
	if !c.first.IsZero() && !feed.Truncate(p.First).Equal(c.first) {
		c.report.add(Metadata, c.key, "its metadata has %v as the time of the first entity, but it is from %v", p.First, c.first)
	}
	if !c.last.IsZero() && !feed.Truncate(p.Last).Equal(c.last) {
		c.report.add(Metadata, c.key, "its metadata has %v as the time of the last entity, but it is from %v", p.Last, c.last)
	}
	if !bytes.Equal(c.lastID, []byte(p.LastContentID)) {
		c.report.add(Metadata, c.key, "its metadata has %q as the last Content-ID, but it is %q", p.LastContentID, c.lastID)
	}
}
