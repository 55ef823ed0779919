package couchdb

import "strings"

// DocPath returns the path of a document for [Request.Path]. In the ids of design
// documents and local documents, the first "/" is not encoded; CouchDB requires it.
func DocPath(id string) string {
	for _, prefix := range [...]string{"_design/", "_local/"} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			return prefix + EscapeID(name)
		}
	}
	return EscapeID(id)
}

// EscapeID percent-encodes a document id so that it is one segment of a path: all
// but the unreserved characters of RFC 3986 are encoded ("+" too, which CouchDB
// reads as a space), and so are the ids "." and "..", which are dot segments.
func EscapeID(id string) string {
	if id == "." || id == ".." {
		return strings.Repeat("%2E", len(id))
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; unreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~", c) >= 0
}
