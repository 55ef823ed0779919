package page_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// A gotPart is a copy of a part that has been read.
type gotPart struct {
	Index    int
	Offset   int64
	End      int64 // Reader.Offset after the part
	Header   []string
	Body     string
	Streamed bool
}

// readAll reads a page to its end, including its streams.
func readAll(t testing.TB, r *page.Reader) (parts []gotPart, err error) {
	t.Helper()
	var streamErr error
	for part, err := range r.Parts() {
		if err != nil {
			if part != nil {
				t.Errorf("part with error %v", err)
			}
			if streamErr != nil && err != streamErr {
				t.Errorf("stream ended with %v, page with %v", streamErr, err)
			}
			return parts, err
		}
		if streamErr != nil {
			t.Fatalf("page continues after the error of a stream: %v", streamErr)
		}
		got := gotPart{Index: part.Index, Offset: part.Offset, Streamed: part.Stream != nil}
		body := part.Body
		if got.Streamed {
			if body != nil {
				t.Errorf("part %d has body and stream", part.Index)
			}
			if body, streamErr = io.ReadAll(part.Stream); streamErr != nil {
				continue
			}
		} else if body == nil {
			t.Errorf("part %d has neither body nor stream", part.Index)
		}
		for _, f := range part.Header {
			got.Header = append(got.Header, string(f.Name)+": "+string(f.Value))
		}
		got.Body = string(body)
		got.End = r.Offset()
		parts = append(parts, got)
	}
	if streamErr != nil {
		t.Fatalf("page ends without an error after the error of a stream: %v", streamErr)
	}
	return parts, nil
}

// A model reads a page in the simplest way: as a whole, line by line. It was written from the
// documentation of page.Reader and shares no code with it.
type model struct {
	page     []byte
	boundary string
	o        page.ReaderOptions
}

// line returns the line that starts at the given offset, with its line break.
func (m *model) line(at int) []byte {
	if n := bytes.IndexByte(m.page[at:], '\n'); n >= 0 {
		return m.page[at : at+n+1]
	}
	return m.page[at:]
}

func (m *model) delimiter(line []byte) (is, closing bool) {
	rest, is := bytes.CutPrefix(line, []byte("--"+m.boundary))
	if !is {
		return false, false
	}
	rest, closing = bytes.CutPrefix(rest, []byte("--"))
	end := bytes.TrimLeft(rest, " \t")
	if len(rest)-len(end) > 1024 {
		return false, false
	}
	switch string(end) {
	case "\n", "\r\n":
		return true, closing
	case "", "\r":
		return closing, closing
	}
	return false, false
}

// find returns the offset of the first delimiter line that starts at the given offset or later.
func (m *model) find(at int) (int, bool) {
	for at < len(m.page) {
		line := m.line(at)
		if is, _ := m.delimiter(line); is {
			return at, true
		}
		at += len(line)
	}
	return 0, false
}

func (m *model) read() ([]gotPart, error) {
	var parts []gotPart
	fail := func(cause error, at int) ([]gotPart, error) {
		return parts, &page.Error{Part: len(parts), Offset: int64(at), Err: cause}
	}
	end := len(m.page)
	at, ok := m.find(0)
	if !ok {
		return nil, &page.Error{Part: -1, Offset: int64(end), Err: page.ErrTruncated}
	}
	for {
		part := gotPart{Index: len(parts), Offset: int64(at)}
		line := m.line(at)
		if _, closing := m.delimiter(line); closing {
			if len(parts) == 0 {
				return nil, &page.Error{Part: -1, Offset: int64(at), Err: page.ErrNoParts}
			}
			return parts, nil
		}
		start := at + len(line)
		body, cause, bad := m.header(start, &part)
		if cause != nil {
			return fail(cause, bad)
		}
		length, given := m.length(part.Header)
		if m.o.Strict && given && length < 0 {
			return fail(page.ErrContentLength, body)
		}
		next, size, cause, bad := m.body(body, length, given, bytes.HasSuffix(line, []byte("\r\n")))
		if cause != nil {
			return fail(cause, bad)
		}
		part.Body = string(m.page[body : body+size])
		part.Streamed = size > cmp.Or(m.o.MaxWhole, 1<<20)
		part.End = int64(next)
		parts = append(parts, part)
		at = next
	}
}

// header reads the header that begins at offset start, and returns the offset of the body.
func (m *model) header(start int, part *gotPart) (body int, cause error, bad int) {
	limit := cmp.Or(m.o.MaxHeader, 64<<10)
	var lines []string
	at := start
	for ; ; at += len(m.line(at)) {
		line := string(m.line(at))
		if line == "\n" || line == "\r\n" {
			break
		}
		complete := strings.HasSuffix(line, "\n")
		if complete && at+len(line)-start > limit || !complete && len(m.page)-start > limit+2 {
			return 0, page.ErrHeaderTooLarge, start + limit
		}
		if is, _ := m.delimiter([]byte(line)); is {
			return 0, page.ErrMalformedHeader, at
		}
		if !complete {
			return 0, page.ErrTruncated, len(m.page)
		}
		lines = append(lines, line)
	}
	block := string(m.page[start:at])
	for i := range block {
		if block[i] == 0 || block[i] == '\r' && block[i+1] != '\n' {
			return 0, page.ErrMalformedHeader, start + i
		}
	}
	bad = start
	for i, line := range lines {
		text := strings.TrimRight(line, "\r\n")
		trimmed := strings.Trim(text, " \t")
		if strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t") {
			if i == 0 {
				return 0, page.ErrMalformedHeader, bad
			}
			last := &part.Header[len(part.Header)-1]
			if trimmed != "" {
				*last = strings.TrimRight(*last, " ") + " " + trimmed
			}
		} else {
			name, value, ok := strings.Cut(text, ":")
			if !ok || name == "" || strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || strings.ContainsAny(name, "\" (),/:;<=>?@[\\]{}\t") {
				return 0, page.ErrMalformedHeader, bad
			}
			part.Header = append(part.Header, name+": "+strings.Trim(value, " \t"))
		}
		bad += len(line)
	}
	return at + len(m.line(at)), nil, 0
}

// length returns the Content-Length, or -1 if it is not a number.
func (m *model) length(header []string) (length int64, given bool) {
	for _, field := range header {
		name, value, _ := strings.Cut(field, ": ")
		if !strings.EqualFold(name, "Content-Length") {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || strings.Trim(value, "0123456789") != "" || given && n != length {
			return -1, true
		}
		length, given = n, true
	}
	return length, given
}

// body returns the offset of the delimiter line after the body that begins at offset start, and
// the size of the body.
func (m *model) body(start int, length int64, given, crlf bool) (next, size int, cause error, bad int) {
	limit := int64(cmp.Or(m.o.MaxWhole, 1<<20))
	if m.o.MaxPart > 0 {
		limit = min(limit, m.o.MaxPart)
	}
	if given && 0 <= length && length <= limit && length < int64(len(m.page)-start) {
		at := start + int(length)
		after := at
		if bytes.HasPrefix(m.page[after:], []byte("\r\n")) {
			after += 2
		} else if m.page[after] == '\n' {
			after++
		}
		split := crlf && m.page[at] == '\n' && length > 0 && m.page[at-1] == '\r'
		if !split && (after > at || length == 0) {
			if is, _ := m.delimiter(m.line(after)); is {
				return after, int(length), nil, 0
			}
		}
		if m.o.Strict && (split || !m.undecided(start, at)) {
			return 0, 0, page.ErrContentLength, at
		}
	}
	next, found := m.find(start)
	if found {
		size = next - start
		if size > 0 {
			size-- // LF
		}
		if crlf && size > 0 && m.page[start+size-1] == '\r' {
			size--
		}
		if cause, bad := m.tooLarge(start, int64(size), length, limit); cause != nil {
			return 0, 0, cause, bad
		}
		if m.o.Strict && given && int64(size) != length {
			return 0, 0, page.ErrContentLength, start + size
		}
		return next, size, nil, 0
	}
	// Near the end of the page, what may be the start of a delimiter does not yet belong to the
	// body.
	most := int64(len(m.page) - start)
	least := max(0, most-int64(len("\r\n--")+len(m.boundary)))
	cause, bad = m.tooLarge(start, least, length, limit)
	if other, _ := m.tooLarge(start, most, length, limit); other != cause {
		return 0, 0, errEither, -1
	}
	if cause == nil {
		return 0, 0, page.ErrTruncated, len(m.page)
	}
	return 0, 0, cause, bad
}

// errEither stands for either ErrPartTooLarge or ErrTruncated.
var errEither = errors.New("part too large, or truncated")

// tooLarge returns the expected error if a body of the given size, or a stream with the given
// Content-Length, exceeds the limit.
func (m *model) tooLarge(start int, size, length, limit int64) (error, int) {
	switch {
	case m.o.MaxPart == 0 || size <= limit || max(size, length) <= m.o.MaxPart:
		return nil, 0
	case m.o.MaxPart <= limit || length > m.o.MaxPart:
		return page.ErrPartTooLarge, start
	default:
		return page.ErrPartTooLarge, start + int(m.o.MaxPart)
	}
}

// undecided reports whether the page ends before it is clear that no delimiter follows at the
// second offset.
func (m *model) undecided(start, at int) bool {
	rest := m.page[at:]
	lineBreaks := []string{"\r\n", "\n"}
	if start == at {
		lineBreaks = append(lineBreaks, "")
	}
	for _, lineBreak := range lineBreaks {
		for _, closing := range []string{"", "--"} {
			for _, end := range []string{"\r\n", "\n"} {
				before := lineBreak + "--" + m.boundary + closing
				if strings.HasPrefix(before+end, string(rest)) {
					return true
				}
				after, ok := strings.CutPrefix(string(rest), before)
				padding := len(after) - len(strings.TrimLeft(after, " \t"))
				if ok && padding <= 1024 && strings.HasPrefix(end, after[padding:]) {
					return true
				}
			}
		}
	}
	return false
}
