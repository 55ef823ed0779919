package sink

import "fmt"

// A TooLargeError is returned by a sink for an entity that is too large for it. Nothing of its batch
// is kept.
type TooLargeError struct {
	Key       string
	ContentID string
	Size      int64  // of the body, in bytes; -1 if it is only known to be above the limit
	Limit     int64  // in bytes
	Of        string // what has the limit, such as "an SQLite row"
}

// Error names the key and the Content-ID.
func (e *TooLargeError) Error() string {
	size := "more"
	if e.Size >= 0 {
		size = fmt.Sprintf("%d", e.Size)
	}
	return fmt.Sprintf("entity %q with key %q is too large for %s: it has %s bytes, the limit is %d: use a dir: or jsonl: sink", e.ContentID, e.Key, e.Of, size, e.Limit)
}
