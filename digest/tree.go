package digest

import "github.com/feedctl/feedctl/snapshot"

// An Entry is the line of a key in a leaf.
type Entry struct {
	Key string
	Sum Sum
	// ContentID is the Content-ID of the last entity of the key. It is empty if that entity has
	// none, as in snapshots that were not made from a feed, or if it is longer than [MaxContentID].
	ContentID string
	// Page is the number of the page that contains the last PUT of the key, and Offset is where the
	// delimiter line of the PUT begins, in bytes from the start of the page. Page is 0 if it is
	// unknown, because the state was read from a snapshot. If a PATCH came after the PUT, Sum is
	// not the sum of the PUT, and ContentID is that of the last PATCH.
	Page   int64
	Offset int64
}

// A Child describes a node in a root, or a leaf in a node.
type Child struct {
	From   string // the first key of the range; "" if the range begins before all keys
	Count  int64  // of keys
	Hash   Hash   // of the keys and their sums
	Object Hash   // SHA-256 of the encoded node or leaf, which is its name
}

// A Range is a half-open range of keys: From is in it, To is not.
type Range struct {
	From string // "" is before all keys
	To   string // "" is after all keys
}

// All is the range of all keys.
var All = Range{}

// Contains reports whether a key is in the range.
func (r Range) Contains(key string) bool { return key >= r.From && (r.To == "" || key < r.To) }

// RangeOf returns the range of child i of children, whose own range is r.
func RangeOf(children []Child, i int, r Range) Range {
	r.From = children[i].From
	if i+1 < len(children) {
		r.To = children[i+1].From
	}
	return r
}

// A Root is a digest: the top of the tree. It is read by [ParseRoot] and written by
// [Root.Encode].
type Root struct {
	// Feed is the position in the feed at which the feed had this state. Its URLs are relative to
	// the URL of the root until they are resolved.
	Feed snapshot.FeedPosition
	// Snapshot is the URL of the snapshot with the same state, if one was written with the digest.
	// It is relative like the URLs of Feed.
	Snapshot string
	// Versions means that a key may have several states at once, like a CouchDB document with
	// conflicts. The keys of the digest are then those of versions: the percent-encoded key of the
	// entity, a space, and the name of the version. Deletions are versions like any other.
	Versions bool
	Tree
}

// A Tree is the part of a root that represents the state.
type Tree struct {
	Count int64 // of keys
	Hash  Hash  // of the keys and their sums
	Nodes []Child
}
