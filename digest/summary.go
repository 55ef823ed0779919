package digest

// A Summary computes the leaves of a range from keys and sums, as a [Builder] does, but stores
// nothing. It lets the owner of a copy of the state compare the copy with a node without reading
// the node. It needs memory for one Child for every thousand keys or so.
type Summary struct {
	cutter cutter
	from   string
	hasher LeafHasher
	leaves []Child
}

// NewSummary returns an empty Summary of the range that begins at from, which must be where a node
// or leaf begins.
func NewSummary(from string) *Summary { return &Summary{cutter: leafCutter(), from: from} }

// Add adds a key, which must be greater than the previous key.
func (s *Summary) Add(key string, sum Sum) {
	if s.cutter.cuts(key) {
		s.end()
		s.from = key
	}
	s.cutter.add(key)
	s.hasher.Add(key, sum)
}

func (s *Summary) end() {
	if s.cutter.count == 0 {
		return
	}
	s.leaves = append(s.leaves, Child{From: s.from, Count: s.hasher.Count(), Hash: s.hasher.Sum()})
	s.cutter.end()
	s.hasher = LeafHasher{}
}

// Leaves ends the range, and returns its leaves without Object. If the range is that of a node, the
// keys and sums added are those of the node if and only if [NodeHash] of the leaves equals the Hash
// of the node.
func (s *Summary) Leaves() []Child {
	s.end()
	return s.leaves
}
