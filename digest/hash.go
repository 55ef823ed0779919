package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// The first bytes that are hashed for each kind of hash, so that no hash can be mistaken for one of another kind.
const (
	leafDomain = "feedctl leaf 1\n"
	nodeDomain = "feedctl node 1\n"
	rootDomain = "feedctl root 1\n"
)

// A LeafHasher computes the Hash of a leaf from its keys and their sums, in constant memory. It
// is the SHA-256 over "feedctl leaf 1\n" and, for each key in order, the length of the key (8
// bytes, big-endian), the key and the sum. Its zero value is an empty leaf.
type LeafHasher struct {
	hash  hash.Hash
	count int64
	buf   []byte
}

// Add adds a key, which must be greater than the previous key.
func (l *LeafHasher) Add(key string, sum Sum) {
	if l.hash == nil {
		l.hash = begin(leafDomain)
	}
	l.buf = append(appendString(l.buf[:0], key), sum[:]...)
	l.hash.Write(l.buf)
	l.count++
}

// Count returns how many keys were added.
func (l *LeafHasher) Count() int64 { return l.count }

// Sum returns the hash of the keys added so far.
func (l *LeafHasher) Sum() Hash {
	if l.hash == nil {
		l.hash = begin(leafDomain)
	}
	return Hash(l.hash.Sum(nil))
}

func begin(domain string) hash.Hash {
	h := sha256.New()
	h.Write([]byte(domain))
	return h
}

// NodeHash returns the Hash of a node from its leaves: the SHA-256 over "feedctl node 1\n" and,
// for each leaf in order, the length of its From (8 bytes, big-endian), its From, its Count (8
// bytes, big-endian) and its Hash.
func NodeHash(leaves []Child) Hash { return hashOf(nodeDomain, leaves) }

// RootHash returns the Hash of a root from its nodes. It is computed like the hash of a node, but over "feedctl root
// 1\n".
func RootHash(nodes []Child) Hash { return hashOf(rootDomain, nodes) }

func hashOf(domain string, children []Child) Hash {
	h := begin(domain)
	var buf []byte
	for _, c := range children {
		buf = appendString(buf[:0], c.From)
		buf = binary.BigEndian.AppendUint64(buf, uint64(c.Count))
		h.Write(append(buf, c.Hash[:]...))
	}
	return Hash(h.Sum(nil))
}

// count returns the sum of the counts of the children.
func count(children []Child) (n int64) {
	for _, c := range children {
		n += c.Count
	}
	return n
}
