package changes

import (
	"encoding/json"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

// A Row says that a document has changed.
type Row struct {
	// Seq is the position after this row, or nil if the row has none (see [Options.SeqInterval]).
	Seq     json.RawMessage
	ID      string   // as the server sent it: possibly empty, or not UTF-8
	Revs    []string // the winner first
	Deleted bool     // whether the winner is deleted
	// Doc is the winning revision, unchanged, if [Options.IncludeDocs] is set. It is valid JSON, but
	// not necessarily UTF-8. It is nil if the server sent no document.
	Doc *couchdb.Body
	// Meta describes the members of Doc whose names begin with an underscore.
	Meta couchdb.Meta
	// Err is set if the row is malformed, even after it was requested again. In that case, Raw has
	// the first 64 KiB of the row, and no other field is set.
	Err error
	Raw []byte

	size int // in memory, in bytes
}

// A Batch is a sequence of rows in the order in which they were received. It may be empty.
type Batch struct {
	Rows []Row
	// Seq is the position to continue from when the rows of this batch, and of all batches before
	// it, have been handled. It may be the same as that of the batch before, and is nil until the
	// server sends a sequence.
	Seq json.RawMessage
	// Pending is the server's count of remaining rows, or -1 if it did not send one. Servers send it
	// at the end of a response. With a filter it is an upper bound. See also [Pending].
	Pending int64

	bytes int
	began time.Time // when the first row was received
}

// Close releases the documents of the rows.
func (b *Batch) Close() {
	for i := range b.Rows {
		b.Rows[i].Doc.Close()
		b.Rows[i].Doc = nil
	}
}
