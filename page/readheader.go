package page

import "bytes"

// readHeader reads the header of the part whose delimiter line has just been consumed, and the
// blank line after the header. The window keeps both, since the fields of the header point into
// it.
func (r *Reader) readHeader() error {
	// Fast path: most headers are well-formed and completely in the window. A delimiter line can
	// be mistaken for a field only if the boundary has a colon.
	h, length, blank, ok := r.knownFields().parse(r.window.bytes())
	if !ok || length > r.maxHeader || r.matcher.colon {
		var err error
		if length, blank, err = r.findHeaderEnd(); err != nil {
			return err
		}
		if h, err = r.parseHeader(length, blank); err != nil {
			return err
		}
	}
	r.window.advance(length + blank)
	r.window.keep = length + blank
	r.part.Header = h
	r.length = r.fields.length
	if r.strict && r.length == badLength {
		return r.fail(ErrContentLength, r.window.offset())
	}
	return nil
}

// knownFields returns the header parser, which uses the header of the previous part if that header is
// still in memory.
func (r *Reader) knownFields() *fieldParser {
	if r.headerMoves != r.window.moves {
		r.fields.forget()
		r.headerMoves = r.window.moves
	}
	return &r.fields
}

func (r *Reader) parseHeader(length, blank int) (Header, error) {
	header := r.window.bytes()[:length+blank]
	if bad := badControl(header); bad >= 0 {
		return nil, r.fail(ErrMalformedHeader, r.window.offset()+int64(bad))
	}
	if !isSpace(header[0]) {
		unfold(header[:length])
	}
	h, bad, _, ok := r.knownFields().parse(header)
	if !ok {
		return nil, r.fail(ErrMalformedHeader, r.window.offset()+int64(bad))
	}
	return h, nil
}

// findHeaderEnd returns the length of the header block at the start of the window, and the length
// of the blank line after it.
func (r *Reader) findHeaderEnd() (length, blank int, err error) {
	line, searched := 0, 0 // start of the line; where to continue the search for its end
	for {
		data := r.window.bytes()
		for {
			n := bytes.IndexByte(data[searched:], '\n')
			if n < 0 {
				break
			}
			next := searched + n + 1
			if size := next - line; size == 1 || size == 2 && data[line] == '\r' {
				return line, size, nil
			}
			if next > r.maxHeader {
				return 0, 0, r.headerTooLarge()
			}
			if err := r.refuseDelimiter(data[line:], line); err != nil {
				return 0, 0, err
			}
			line, searched = next, next
		}
		if len(data) > r.maxHeader+len("\r\n") {
			return 0, 0, r.headerTooLarge()
		}
		if err := r.refuseDelimiter(data[line:], line); err != nil {
			return 0, 0, err
		}
		searched = len(data)
		if err := r.more(); err != nil {
			return 0, 0, err
		}
	}
}

func (r *Reader) headerTooLarge() error {
	return r.fail(ErrHeaderTooLarge, r.window.offset()+int64(r.maxHeader))
}

// refuseDelimiter returns an error if data begins with a delimiter line. The lines of the header,
// from offset line on, are in data.
func (r *Reader) refuseDelimiter(data []byte, line int) error {
	if len(data) == 0 || data[0] != '-' {
		return nil
	}
	if _, v := r.matcher.match(data, r.window.ended()); v != present {
		return nil
	}
	return r.fail(ErrMalformedHeader, r.window.offset()+int64(line))
}

// settleHeader makes the fields point to where the header is now: in the window, whose bytes may
// have moved during the search for the end of the body, or in a copy if the body is a stream.
func (r *Reader) settleHeader() {
	header := r.window.kept()
	if r.part.Stream != nil {
		r.block = append(r.block[:0], header...)
		r.fields.forget() // the fields of the previous header may point into block
		r.window.keep = 0
		header = r.block
	} else if r.headerMoves == r.window.moves {
		return
	}
	r.part.Header, _, _, _ = r.knownFields().parse(header)
}
