package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// maxName is the limit in bytes of a file name, without a suffix. File systems
// allow 255.
const maxName = 240

// headName is the length to which a name that is too long is cut.
const headName = 128

// FileName returns the name of the file for a key: the key with all bytes but
// letters, digits, "-", "_", "~" and "." percent-encoded, and a "." at the
// start too. [net/url.PathUnescape] returns the key. A name of more than 240 bytes is
// replaced with its first 128 bytes or a little less (no escape is cut), "%-", and the
// SHA-256 of the key in hex; then the key is in the file's metadata.
func FileName(key string) string {
	name := feed.EncodeKey(key)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	if len(name) <= maxName {
		return name
	}
	head := name[:headName]
	if i := strings.LastIndexByte(head, '%'); i > headName-3 {
		head = head[:i]
	}
	sum := sha256.Sum256([]byte(key))
	return head + "%-" + hex.EncodeToString(sum[:])
}
