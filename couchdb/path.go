package couchdb

import (
	"net/url"
	"strings"
)

// DocPath returns the path of a document for [Request.Path]. In the ids of design documents and
// local documents, the first "/" is not encoded; CouchDB requires it.
func DocPath(id string) string {
	for _, prefix := range [...]string{"_design/", "_local/"} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			return prefix + EscapeID(name)
		}
	}
	return EscapeID(id)
}

// EscapeID percent-encodes a document id so that it is one segment of a path: all but the
// unreserved characters of RFC 3986 ("+" too, which CouchDB reads as a space), and the ids "." and
// "..", which would be dot segments.
func EscapeID(id string) string {
	if id == "." || id == ".." {
		return strings.Repeat("%2E", len(id))
	}
	return strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}
