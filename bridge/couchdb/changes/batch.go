package changes

import (
	"encoding/json"

	"github.com/feedctl/feedctl/couchdb"
)

// A Row says that a document has changed.
type Row struct {
	// Seq is the position after this row, or nil if there is none here (see
	// [Options.SeqInterval]).
	Seq     json.RawMessage
	ID      string   // may be empty, or not UTF-8, if the server says so
	Revs    []string // the winner first
	Deleted bool     // the winner is
	// Doc is the winner as the server wrote it, which is valid JSON but maybe not
	// UTF-8, if [Options.IncludeDocs]. It is nil if the server gave none. It can
	// be used until the batch is confirmed.
	Doc *couchdb.Body
	// Meta is what Doc says about itself.
	Meta couchdb.Meta
	// Err says that the row makes no sense. Then Raw is what was received, up to
	// the first 64 KiB of it, and nothing else is set. It was asked for again,
	// and was no better.
	Err error
	Raw []byte

	size int // in memory, in bytes
}

// A Batch is some rows in the order they came, maybe none.
type Batch struct {
	Rows []Row
	// Seq is the position to go on from when all rows of this batch, and those
	// of all batches before, are handled. It may be the one of the batch before,
	// and nil as long as there was none.
	Seq json.RawMessage
	// Pending is how many rows the server says are still to come, or -1 if it
	// does not say. It does at the end of an answer, and with a filter it is an
	// upper bound. See also [Pending].
	Pending int64

	bytes int
}

// fits reports whether another one may be added to b.
func (b *Batch) fits(rows, bytes int, o *Options) bool {
	return len(b.Rows) == 0 || len(b.Rows)+rows <= o.BatchRows && b.bytes+bytes <= o.BatchBytes
}

func (b *Batch) add(row Row) {
	b.Rows = append(b.Rows, row)
	b.bytes += row.size
	if row.Seq != nil {
		b.Seq = row.Seq
	}
	b.Pending = -1
}

// join adds the batch that came after b.
func (b *Batch) join(next *Batch) {
	b.Rows = append(b.Rows, next.Rows...)
	b.bytes += next.bytes
	b.Seq, b.Pending = next.Seq, next.Pending
}

// release frees what the rows hold outside of memory.
func (b *Batch) release() {
	for i := range b.Rows {
		b.Rows[i].Doc.Close()
	}
}

// An arena gives out memory for many small things at a time.
type arena struct{ free []byte }

const arenaChunk = 64 << 10

// keep returns a copy of b.
func (a *arena) keep(b []byte) []byte {
	if len(b) > arenaChunk/4 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(b) > cap(a.free)-len(a.free) {
		a.free = make([]byte, 0, arenaChunk)
	}
	start := len(a.free)
	a.free = append(a.free, b...)
	return a.free[start:len(a.free):len(a.free)]
}
