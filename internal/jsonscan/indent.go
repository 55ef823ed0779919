package jsonscan

import "io"

// maxIndent is the maximum number of levels that AppendIndent indents. Without a limit, a text of n nested
// arrays would become a text of n² bytes.
const maxIndent = 32

// AppendIndent appends the JSON text src with a line for each element and member, indented by two spaces for
// each level. Only white space between tokens is changed: numbers keep their digits, strings keep their
// escapes, and members keep their order. AppendIndent stops after limit bytes, which may be within a character.
//
// The error is a [*SyntaxError] if src is not JSON or is nested deeper than [MaxDepth], and
// io.ErrUnexpectedEOF if src ends too early, such as a text that was cut off. The text before the error is
// appended nevertheless. Strings need not be UTF-8.
func AppendIndent(dst, src []byte, limit int) ([]byte, error) {
	v, end := value{compact: true}, len(dst)+limit
	begun := false // whether the last token was '[', '{' or ','
	for i := range src {
		if len(dst) >= end {
			return dst[:end], nil
		}
		c, depth, inside := src[i], len(v.stack), v.state == inString || v.state == inEscape || v.state == inHex
		n, err := v.scan(src[i : i+1])
		switch {
		case err == nil && n == 0 && space(c): // white space between tokens, or after the value
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

// appendLine begins a line with the indentation of a level.
func appendLine(dst []byte, level int) []byte {
	dst = append(dst, '\n')
	for range min(level, maxIndent) {
		dst = append(dst, "  "...)
	}
	return dst
}
