package layout

import (
	"fmt"
	"strings"
)

// DigestsPrefix begins the keys of all state digests.
const DigestsPrefix = "digests/"

// DigestRoots returns the prefix of the keys of the roots of a feed's state digests. IDs sort by
// creation time, so the last key with the prefix is the newest root.
func DigestRoots(feed string) string { return DigestsPrefix + feed + "/roots/" }

// DigestRoot returns the key of the root of one state digest.
func DigestRoot(feed, id string) string { return DigestRoots(feed) + id }

// ParseDigestRoot returns the ID in a key returned by [DigestRoot]. The ID must have the form that
// feedctl writes, the same as for snapshots.
func ParseDigestRoot(feed, key string) (id string, err error) {
	id, ok := strings.CutPrefix(key, DigestRoots(feed))
	if !ok || !snapshotID.MatchString(id) {
		return "", fmt.Errorf("%w: key %q is not a state digest of feed %q", ErrName, key, feed)
	}
	return id, nil
}

// DigestNodes returns the common prefix of the keys of the nodes and leaves of a feed's state digests.
func DigestNodes(feed string) string { return DigestsPrefix + feed + "/nodes/" }

// DigestNode returns the key of a node or leaf of a feed's state digests. The name is the SHA-256 of
// the bytes of the node or leaf, in hex.
func DigestNode(feed, name string) string { return DigestNodes(feed) + name }

// DigestPath returns the URL path of the newest state digest of a feed.
func DigestPath(feed string) string { return "/digests/" + feed }

// DigestRootPath returns the URL path of the root of one state digest.
func DigestRootPath(feed, id string) string { return DigestPath(feed) + "/" + id }

// DigestNodePath returns the URL path of a node or leaf of a feed's state digests.
func DigestNodePath(feed, name string) string { return DigestPath(feed) + "/nodes/" + name }
