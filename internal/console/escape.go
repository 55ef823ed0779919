package console

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// An escaper is the writer that [Escape] returns.
type escaper struct {
	w    io.Writer
	rest []byte // the first bytes of a character whose other bytes have not been written yet
}

// Escape returns a writer for text to a terminal, or to a log that is shown on one. Since
// part of the text comes from servers, feeds and stores, it escapes the characters that
// control a terminal or change the order of the text: control characters other than line
// feed and tab, format characters such as those for bidirectional text (other than
// joiners), line and paragraph separators, and bytes that are not UTF-8. The escapes are those of
// JSON (RFC 8259, section 7), so JSON text keeps its meaning.
func Escape(w io.Writer) io.Writer { return &escaper{w: w} }

func (e *escaper) Write(p []byte) (int, error) {
	text := p
	if len(e.rest) > 0 {
		text = append(e.rest, p...)
		e.rest = nil
	}
	escaped := make([]byte, 0, len(text))
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			e.rest = append(e.rest, text...)
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped = fmt.Appendf(escaped, `\u%04x`, text[0])
		case harmful(r) && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		case harmful(r):
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		default:
			escaped = append(escaped, text[:size]...)
		}
		text = text[size:]
	}
	if _, err := e.w.Write(escaped); err != nil {
		return 0, err
	}
	return len(p), nil
}

func harmful(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
