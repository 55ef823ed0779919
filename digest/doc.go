// Package digest implements state digests. A state digest describes the state of a feed at one
// position so briefly that states can be compared without transferring them. The package uses
// neither storage nor HTTP.
//
// The state is the last entity of each key, without keys that were deleted. A [Sum] stands for
// the state of one key. The keys, in byte order, are cut into leaves of about a thousand keys, and
// the leaves into nodes of about 256 leaves; the [Root] lists the nodes.
//
//	root   position in the feed, count, hash; for each node: from, count, hash, object
//	node   for each leaf: from, count, hash, object
//	leaf   for each key: key, sum, Content-ID, page and offset of its last PUT
//
// # Two hashes
//
// A hash ([Child].Hash) stands for the state alone: the keys and their sums. Two states are equal
// if and only if the hashes of their roots are equal, whatever their histories. An object
// ([Child].Object) is the SHA-256 of a node or leaf as it is stored, and serves as its name. It
// also differs if the same state was reached through other entities.
//
// # Ranges
//
// Every node and leaf covers a half-open range of keys, which begins at its own from and ends
// before the from of the next one. The first range begins before all keys, and the last one has no
// end. A key that is greater than all keys of a digest therefore belongs to its last leaf.
//
// # Cuts
//
// Where a leaf begins depends on the keys alone, so a changed body changes one leaf. A leaf begins
// at a key whose SHA-256 begins with 10 zero bits, unless the previous leaf would have fewer than
// [MinLeaf] keys. A leaf also begins at any key if the previous leaf has [MaxLeaf] keys, or would
// exceed [MaxLeafKeys] bytes of keys. A new or deleted key moves cuts only up to the next key that
// begins a leaf both with and without it. Nodes are cut in the same way, at leaves whose first key
// has 18 zero bits.
package digest
