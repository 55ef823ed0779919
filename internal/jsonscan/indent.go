package jsonscan

import "io"

// maxIndent is how many levels AppendIndent indents. Without a limit, a text of n nested arrays would become
// one of n² bytes.
const maxIndent = 32

// AppendIndent appends the JSON text src with a line for each element and member, indented by two spaces a
// level. Only white space between tokens is changed: numbers keep their digits, strings their escapes, members
// their order. AppendIndent stops after limit bytes, which may be within a character.
//
// The error is a [*SyntaxError] if src is not JSON or is nested deeper than [MaxDepth], and
// io.ErrUnexpectedEOF if src ends too early, as the beginning of a longer text does. What precedes the error is
// appended. Strings need not be UTF-8.
func AppendIndent(dst, src []byte, limit int) ([]byte, error) {
	v, end := value{compact: true}, len(dst)+limit
	begun := false // the last token was '[', '{' or ','
	for i := range src {
		if len(dst) >= end {
			return dst[:end], nil
		}
		c, depth, inside := src[i], len(v.stack), v.state == inString || v.state == inEscape || v.state == inHex
		n, err := v.scan(src[i : i+1])
		switch {
		case err == nil && n == 0 && space(c): // between tokens, or after all of them
			continue
		case err == nil && n == 0:
			return dst, &SyntaxError{int64(i), "more than one value"}
		case err != nil:
			return dst, &SyntaxError{int64(i), err.Error()}
		}
		if inside {
			dst = append(dst, c)
			continue
		}
		ends := c == '}' || c == ']'
		if ends != begun {
			dst = appendLine(dst, min(depth, len(v.stack)))
		}
		begun = c == '{' || c == '[' || c == ','
		if dst = append(dst, c); c == ':' {
			dst = append(dst, ' ')
		}
	}
	if !v.atEnd() {
		return dst[:min(len(dst), end)], io.ErrUnexpectedEOF
	}
	return dst[:min(len(dst), end)], nil
}

// appendLine begins a line at a level.
func appendLine(dst []byte, level int) []byte {
	dst = append(dst, '\n')
	for range min(level, maxIndent) {
		dst = append(dst, "  "...)
	}
	return dst
}
