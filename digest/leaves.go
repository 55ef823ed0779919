package digest

// A LeafScanner cuts the keys of a range into leaves as a [Builder] does, without their contents. It
// computes what a copy of a state has to be compared with.
type LeafScanner struct {
	cut    cutter
	hasher LeafHasher
	from   string
	done   func(Child)
}

// NewLeafScanner returns a LeafScanner for a range that begins at from, where a leaf begins. It calls
// done with each leaf, which has no Object.
func NewLeafScanner(from string, done func(Child)) *LeafScanner {
	return &LeafScanner{cut: leafCutter(), from: from, done: done}
}

// Add adds a key, which must be greater than the one before.
func (l *LeafScanner) Add(key string, sum Sum) {
	if l.cut.cuts(key) {
		l.End()
		l.from = key
	}
	l.cut.add(key)
	l.hasher.Add(key, sum)
}

// End ends the last leaf, unless it is empty.
func (l *LeafScanner) End() {
	if l.hasher.Count() == 0 {
		return
	}
	l.done(Child{From: l.from, Count: l.hasher.Count(), Hash: l.hasher.Sum()})
	l.cut.end()
	l.hasher = LeafHasher{}
}
