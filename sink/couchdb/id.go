package couchdb

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
)

// escapedID begins the ids of keys that cannot be ids themselves.
const escapedID = "feedctl:"

// maxID is how long an id may be when it is percent-encoded: servers take URLs of
// 8 KiB.
const maxID = 4096

// docID returns the id of the document for a key: the key itself, if it can be one.
// Other keys are percent-encoded, or replaced by their digest, behind escapedID.
func docID(key string) string {
	if canBeID(key) {
		return key
	}
	if id := escapedID + feed.EncodeKey(key); len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("%ssha256:%x", escapedID, sha256.Sum256([]byte(key)))
}

// canBeID reports whether a key can be an id. CouchDB keeps ids with an underscore
// at the start for itself; "." and ".." get lost in URLs.
func canBeID(key string) bool {
	return key != "" && key[0] != '_' && key != "." && key != ".." &&
		!strings.HasPrefix(key, escapedID) && utf8.ValidString(key) &&
		strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 &&
		len(feed.EncodeKey(key)) <= maxID
}
