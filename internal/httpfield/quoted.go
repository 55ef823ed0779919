// Package httpfield parses parts of HTTP fields.
package httpfield

import "strings"

// CutQuoted parses the rest of a quoted string (RFC 9110, section 5.6.4), after the opening quote,
// at the beginning of s. It returns the string with its escapes undone, and the rest of s. If the
// closing quote is missing, the string extends to the end of s.
func CutQuoted(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i+1 < len(s) {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
