package repair

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// maxWhole is the size up to which entities are held in memory, in bytes.
const maxWhole = 64 << 10

// digest returns the SHA-256 of the first size bytes, in hex.
func digest(r io.Reader, size int64) (string, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, io.LimitReader(r, size))
	return hex.EncodeToString(sum.Sum(nil)), err
}

func (x *examination) digest(r *storage.Leftover, size int64) (sum string, err error) {
	body, err := x.recoverer.OpenLeftover(x.ctx, *r)
	if err != nil {
		return "", err
	}
	sum, err = digest(body, size)
	return sum, errors.Join(err, body.Close())
}

// A text is what can be read from the body of a page if its metadata is missing.
type text struct {
	boundary        string
	entities        int
	end             int64 // of the last whole entity or, if the page is closed, of the closing delimiter, in bytes
	closed          bool
	whole           bool      // nothing follows end
	first, last     time.Time // in whole seconds
	firstID, lastID string
}

// read reads the complete entities of a body. It returns nil if there are none.
func (x *examination) read(r *storage.Leftover) (*text, error) {
	body, err := x.recoverer.OpenLeftover(x.ctx, *r)
	if err != nil {
		return nil, err
	}
	t, err := readText(body, r.Size)
	return t, errors.Join(err, body.Close())
}

func readText(body io.Reader, size int64) (*text, error) {
	buffered := bufio.NewReader(body)
	line, err := buffered.Peek(len("--") + 70 + len("\r\n")) // RFC 2046, section 5.1.1
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read body: %w", err)
	}
	opening, _, found := strings.Cut(string(line), "\r\n")
	boundary, dashes := strings.CutPrefix(opening, "--")
	if !found || !dashes {
		return nil, nil
	}
	closing := page.AppendClose(nil, boundary)
	t := &text{boundary: boundary}
	// An open page is stored without the closing delimiter.
	reader := page.NewReader(io.MultiReader(buffered, strings.NewReader(string(closing))), boundary, page.ReaderOptions{MaxWhole: maxWhole, Strict: true})
	for part, err := range reader.Parts() {
		if err != nil {
			var incomplete *page.Error
			if errors.As(err, &incomplete) {
				return t.done(size, closing, false), nil
			}
			return nil, fmt.Errorf("read body: %w", err)
		}
		id, modified := string(part.Header.Get("Content-ID")), string(part.Header.Get("Last-Modified"))
		if part.Stream != nil {
			if _, err := io.Copy(io.Discard, part.Stream); err != nil {
				continue // Parts yields the error next
			}
		}
		at, err := feed.ParseTime(modified)
		if err != nil || at.Before(t.last) {
			return t.done(size, closing, false), nil
		}
		if t.entities == 0 {
			t.first, t.firstID = at, id
		}
		t.entities++
		t.last, t.lastID, t.end = at, id, reader.Offset()
	}
	return t.done(size, closing, true), nil
}

// done completes the text. ended means that the body could be read to its end.
func (t *text) done(size int64, closing []byte, ended bool) *text {
	if t.entities == 0 {
		return nil
	}
	if ended && size == t.end+int64(len(closing)) {
		t.closed, t.end = true, size
	}
	t.whole = ended && size == t.end
	return t
}
