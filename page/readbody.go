package page

import "bytes"

// A bodyScan is the state of the search for the end of a body or of the preamble.
// All offsets are relative to the start of the window.
type bodyScan struct {
	lineStart bool // a delimiter line may begin at the start of the window
	crlf      bool // a CR before the LF is part of the line break
	from      int  // where the search continues
	known     int  // number of bytes known to belong to the body
	found     bool // all of the body is known; a line break and a delimiter follow
	lineBreak int  // length of the line break after the body
	line      delimiter
}

// readBody sets the part's Body, or its Stream if the body is too large.
func (r *Reader) readBody() error {
	limit := int64(r.maxWhole)
	if r.maxPart > 0 {
		limit = min(limit, r.maxPart)
	}
	if 0 <= r.length && r.length <= limit {
		if err := r.trustLength(int(r.length)); err != nil {
			return err
		}
	}
	for !r.body.found && int64(r.body.known) <= limit {
		if err := r.extendBody(); err != nil {
			return err
		}
	}
	size := int64(r.body.known) // only a lower bound if it exceeds the limit
	switch {
	case size <= limit:
		r.part.Body = r.window.bytes()[:size:size]
		r.settleHeader()
		return r.checkLength(size)
	case limit == r.maxPart, r.maxPart > 0 && r.length > r.maxPart:
		return r.fail(ErrPartTooLarge, r.window.offset())
	default:
		r.stream = &stream{r: r}
		r.part.Stream = r.stream
		r.settleHeader()
		return nil
	}
}

// trustLength records that the body ends after n bytes if a delimiter follows
// there. Otherwise the end of the body must still be searched for.
func (r *Reader) trustLength(n int) error {
	for {
		switch r.delimiterAt(n) {
		case present:
			return nil
		case absent:
			if r.strict {
				return r.fail(ErrContentLength, r.window.offset()+int64(n))
			}
			return nil
		}
		if r.window.err != nil {
			return nil // the search will find out whether the page is truncated
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// delimiterAt records that the body ends after n bytes if a line break and a
// delimiter line follow there.
func (r *Reader) delimiterAt(n int) verdict {
	data := r.window.bytes()
	if len(data) <= n {
		return undecided
	}
	if usual := r.matcher.usual; bytes.HasPrefix(data[n:], usual) {
		r.body.found, r.body.known, r.body.lineBreak = true, n, len("\r\n")
		r.body.line = delimiter{length: len(usual) - len("\r\n"), crlf: true}
		return present
	}
	lineBreak := 0
	switch rest := data[n:]; {
	case rest[0] == '\n' && r.body.crlf && n > 0 && data[n-1] == '\r':
		return absent // n is inside a line break
	case rest[0] == '\n':
		lineBreak = 1
	case rest[0] == '\r' && len(rest) == 1:
		return undecided
	case rest[0] == '\r' && rest[1] == '\n':
		lineBreak = 2
	case n > 0:
		return absent
	}
	line, v := r.matcher.match(data[n+lineBreak:], false)
	if v == undecided && r.window.ended() {
		if line, v = r.matcher.match(data[n+lineBreak:], true); v == absent {
			return undecided
		}
	}
	if v == present {
		r.body.found, r.body.known, r.body.lineBreak, r.body.line = true, n, lineBreak, line
	}
	return v
}

// extendBody continues the search until more bytes are known to belong to the body,
// or until the delimiter after the body is found.
func (r *Reader) extendBody() error {
	for b, before := &r.body, r.body.known; ; {
		if b.lineStart {
			r.matchLineStart()
		}
		if !b.lineStart && !b.found {
			r.searchBody()
		}
		if b.found || b.known > before {
			return nil
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// matchLineStart checks for a delimiter line at the start of the window.
func (r *Reader) matchLineStart() {
	line, v := r.matcher.match(r.window.bytes(), r.window.ended())
	switch v {
	case present:
		r.body.found, r.body.line = true, line
	case absent:
		r.body.lineStart = false
	}
}

// searchBody searches for a delimiter line, in the part of the window that has not
// been searched.
func (r *Reader) searchBody() {
	b, data := &r.body, r.window.bytes()
	at, line, v := r.matcher.search(data, b.from, r.window.ended())
	b.from, b.known = at, at
	if b.crlf && at > 0 && data[at-1] == '\r' {
		b.known--
	}
	if v == present {
		b.found, b.lineBreak, b.line = true, at+1-b.known, line
	}
}

// checkLength returns an error if the reader is strict and Content-Length differs
// from size, the size of the body. The rest of the body must be known.
func (r *Reader) checkLength(size int64) error {
	if r.strict && r.length != noLength && r.length != size {
		return r.fail(ErrContentLength, r.window.offset()+int64(r.body.known))
	}
	return nil
}

// skipBody consumes the rest of a streamed body, or the preamble.
func (r *Reader) skipBody() error {
	if r.stream != nil {
		defer r.closeStream()
		return r.skipStream()
	}
	for !r.body.found {
		r.consumeBody(r.body.known)
		if err := r.extendBody(); err != nil {
			return err
		}
	}
	return nil
}

// consumeBody consumes n of the bytes known to belong to the body.
func (r *Reader) consumeBody(n int) {
	r.window.advance(n)
	r.body.known -= n
	r.body.from -= n
}
