package digest

import (
	"crypto/sha256"
	"encoding/binary"
)

// Limits of leaves and nodes. They are part of the format, since other values would lead to other
// leaves and nodes.
const (
	MinLeaf     = 128       // minimum number of keys of a leaf, except for the last leaf, or a leaf with long keys
	MaxLeaf     = 4096      // keys of a leaf
	MaxLeafKeys = 512 << 10 // bytes of all keys of a leaf, unless it has only one key
	MinNode     = 32        // leaves of a node, with the same exceptions
	MaxNode     = 1024      // leaves of a node
	leafBits    = 10        // a leaf has MinLeaf + 2^10 keys on average
	nodeBits    = 18        // 2^(18-10) leaves
)

// A cutter decides where leaves or nodes begin. Its state depends only on the current leaf or node,
// so the cuts after a key that begins a leaf or node do not depend on the keys before it.
type cutter struct {
	bits     uint
	min, max int
	count    int // of the current leaf or node
	bytes    int // of its keys
}

func leafCutter() cutter { return cutter{bits: leafBits, min: MinLeaf, max: MaxLeaf} }
func nodeCutter() cutter { return cutter{bits: nodeBits, min: MinNode, max: MaxNode} }

// cuts reports whether the current leaf or node ends before the key, so that a new one begins with
// it.
func (c *cutter) cuts(key string) bool {
	switch {
	case c.count == 0:
		return false
	case c.count >= c.max, c.bytes+len(key) > MaxLeafKeys:
		return true
	}
	return c.count >= c.min && isCut(key, c.bits)
}

// add adds a key to the current leaf or node.
func (c *cutter) add(key string) { c.count, c.bytes = c.count+1, c.bytes+len(key) }

// end begins a new leaf or node.
func (c *cutter) end() { c.count, c.bytes = 0, 0 }

// isCut reports whether the SHA-256 of the key begins with the given number of zero bits.
func isCut(key string, bits uint) bool {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])>>(64-bits) == 0
}
