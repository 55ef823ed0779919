package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// listBlock is the number of pages of a list that are written to disk at a time.
const listBlock = 256

// A listed is a page to be read.
type listed struct {
	url string
	// nameless means that the page has no valid link to itself, so other pages may link to it by
	// another URL.
	nameless bool
	// modified is the Last-Modified in the response to HEAD; zero if no HEAD request was sent for
	// the page.
	modified time.Time
	chain    feed.Chain
	final    bool // the page had a next link
}

// A pageList lists the pages of a check in a temporary file; it takes about 16 bytes of memory per
// page. After an error with the file, which is kept in err, the list cannot be used.
type pageList struct {
	dir   string
	count int
	// backward is the number of pages, at the beginning of the list, that were added newest first.
	backward int
	seen     urlSet

	file   *os.File // blocks in sequence; nil if there are none
	starts []int64  // where the blocks begin in the file
	end    int64
	tail   []listed // not in the file yet

	number int      // of block
	block  []listed // the block that was read last, or nil
	err    error
}

func (l *pageList) add(p listed) {
	l.seen.add(p.url)
	l.count++
	if l.tail = append(l.tail, p); len(l.tail) == listBlock {
		l.spill()
	}
}

// reverse reverses the list, whose oldest page was added last.
func (l *pageList) reverse() { l.backward = l.count }

func (l *pageList) has(url string) bool { return l.seen.has(url) }

// at returns the i-th page, from 0 for the oldest.
func (l *pageList) at(i int) listed {
	if i < l.backward {
		i = l.backward - 1 - i
	}
	number, within := i/listBlock, i%listBlock
	if number == len(l.starts) {
		return l.tail[within]
	}
	if l.block == nil || l.number != number {
		l.load(number)
	}
	if l.err != nil {
		return listed{}
	}
	return l.block[within]
}

// numbers returns the numbers of the pages, from 1 for the oldest, whose URLs are in the given set.
func (l *pageList) numbers(urls map[string]bool) map[string]int {
	found := make(map[string]int)
	if len(urls) == 0 {
		return found
	}
	for i := range l.count {
		if url := l.at(i).url; urls[url] && found[url] == 0 {
			found[url] = i + 1
		}
	}
	return found
}

// spill writes the tail to the file.
func (l *pageList) spill() {
	if l.err != nil {
		return
	}
	if l.file == nil {
		if l.file, l.err = os.CreateTemp(l.dir, "feedctl-verify-*"); l.err != nil {
			l.err = fmt.Errorf("create a temporary file for the list of pages: %w", l.err)
			return
		}
	}
	var b []byte
	for i := range l.tail {
		b = l.tail[i].append(b)
	}
	if _, err := l.file.WriteAt(b, l.end); err != nil {
		l.err = fmt.Errorf("write the list of pages: %w", err)
		return
	}
	l.starts = append(l.starts, l.end)
	l.end += int64(len(b))
	l.tail = l.tail[:0]
}

// load reads a block.
func (l *pageList) load(number int) {
	if l.err != nil {
		return
	}
	end := l.end
	if number+1 < len(l.starts) {
		end = l.starts[number+1]
	}
	b := make([]byte, end-l.starts[number])
	if _, err := l.file.ReadAt(b, l.starts[number]); err != nil {
		l.err = fmt.Errorf("read the list of pages: %w", err)
		return
	}
	l.number, l.block = number, l.block[:0]
	for range listBlock {
		var p listed
		p, b = decodeListed(b)
		l.block = append(l.block, p)
	}
}

// close removes the temporary file.
func (l *pageList) close() error {
	if l.file == nil {
		return nil
	}
	return errors.Join(l.file.Close(), os.Remove(l.file.Name()))
}

func (p *listed) append(b []byte) []byte {
	var flags byte
	for i, is := range [...]bool{p.nameless, p.final, !p.modified.IsZero()} {
		if is {
			flags |= 1 << i
		}
	}
	b = binary.BigEndian.AppendUint64(append(b, flags), uint64(p.modified.Unix()))
	for _, text := range [...]string{p.url, p.chain.Self, p.chain.Prev} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func decodeListed(b []byte) (p listed, rest []byte) {
	flags := b[0]
	p.nameless, p.final = flags&1 != 0, flags&2 != 0
	if flags&4 != 0 {
		p.modified = time.Unix(int64(binary.BigEndian.Uint64(b[1:])), 0).UTC()
	}
	b = b[9:]
	for _, text := range [...]*string{&p.url, &p.chain.Self, &p.chain.Prev} {
		n, size := binary.Uvarint(b)
		*text = string(b[size : size+int(n)])
		b = b[size+int(n):]
	}
	return p, b
}

// A urlSet is a set of URLs, stored as hashes of 64 bits. In a set of 10^9 URLs, the probability
// that a lookup is wrong is about 10^-10.
type urlSet struct {
	seed  maphash.Seed
	table []uint64 // open addressing; 0 marks a free slot
	count int
}

func (s *urlSet) add(url string) {
	if 4*(s.count+1) > 3*len(s.table) {
		s.grow()
	}
	h := s.hash(url)
	if at := s.find(h); s.table[at] == 0 {
		s.table[at] = h
		s.count++
	}
}

func (s *urlSet) has(url string) bool {
	return s.count > 0 && s.table[s.find(s.hash(url))] != 0
}

func (s *urlSet) hash(url string) uint64 { return max(1, maphash.String(s.seed, url)) }

// find returns the slot with h or, if h is not in the table, the free slot for it.
func (s *urlSet) find(h uint64) int {
	mask := len(s.table) - 1
	at := int(h) & mask
	for s.table[at] != 0 && s.table[at] != h {
		at = (at + 1) & mask
	}
	return at
}

func (s *urlSet) grow() {
	old := s.table
	if old == nil {
		s.seed = maphash.MakeSeed()
	}
	s.table = make([]uint64, max(64, 2*len(old)))
	for _, h := range old {
		if h != 0 {
			s.table[s.find(h)] = h
		}
	}
}
