package jsonscan

import "unicode/utf8"

// MaxDepth is the maximum nesting of arrays and objects in [AppendCompact].
const MaxDepth = 1024

// AppendCompact appends the JSON text src without the white space between its
// tokens. Nothing else is changed: numbers keep their digits, strings keep their escapes, and
// members keep their order. If src is not one JSON value in UTF-8, or is nested deeper than
// [MaxDepth], it returns dst unchanged, and false.
func AppendCompact(dst, src []byte) ([]byte, bool) {
	if !utf8.Valid(src) {
		return dst, false
	}
	var stack [64]byte
	v, out := value{compact: true, stack: stack[:0]}, dst
	i := skipSpace(src, 0)
	for i < len(src) && v.state != ended {
		n, err := v.scan(src[i:])
		if err != nil {
			return dst, false
		}
		out = append(out, src[i:i+n]...)
		i = skipSpace(src, i+n)
	}
	if i < len(src) || !v.atEnd() {
		return dst, false
	}
	return out, true
}
