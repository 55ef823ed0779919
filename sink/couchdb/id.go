package couchdb

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
)

// escapedID is the prefix of the ids of keys that are not valid ids.
const escapedID = "feedctl:"

// maxID limits the length of a percent-encoded id. Servers accept URLs of 8 KiB.
const maxID = 4096

// docID returns the id of the document for a key: the key itself if it is a valid id.
// Other keys are percent-encoded, or replaced by their digest, and prefixed with escapedID.
func docID(key string) string {
	if canBeID(key) {
		return key
	}
	if id := escapedID + feed.EncodeKey(key); len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("%ssha256:%x", escapedID, sha256.Sum256([]byte(key)))
}

// canBeID reports whether a key is a valid id. CouchDB reserves ids that begin with an
// underscore; "." and ".." are dot segments in URLs.
func canBeID(key string) bool {
	return key != "" && key[0] != '_' && key != "." && key != ".." &&
		!strings.HasPrefix(key, escapedID) && utf8.ValidString(key) &&
		strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 &&
		len(feed.EncodeKey(key)) <= maxID
}
