// Package httpfield parses parts of HTTP fields.
package httpfield

import "strings"

// CutQuoted cuts a quoted string (RFC 9110, section 5.6.4) without its opening quote off s
// and undoes its escapes. If the closing quote is missing, the string ends with s.
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
