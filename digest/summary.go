package digest

// A Summary computes the leaves of a range from keys and sums, as a [Builder] does, but stores
// nothing: with it, the owner of a copy of the state compares a node without reading it. A Summary
// needs memory for one Child for every thousand keys or so.
type Summary struct {
	cutter cutter
	from   string
	hasher LeafHasher
	leaves []Child
}

// NewSummary returns the summary of a range that begins at from, which begins a node or leaf.
func NewSummary(from string) *Summary { return &Summary{cutter: leafCutter(), from: from} }

// Add adds a key, which must be greater than the one before.
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

// Leaves ends the range, and returns its leaves without Object. If the range is that of a node,
// its keys and sums are equal to the node's if and only if [NodeHash] of the leaves is the node's
// Hash.
func (s *Summary) Leaves() []Child {
	s.end()
	return s.leaves
}
