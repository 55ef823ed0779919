package page

// SetBuffer gives r a small buffer, so that even with small pages the reader must
// enlarge the buffer and move the bytes in it.
func SetBuffer(r *Reader, room int) { r.window.buf = make([]byte, minRead+room) }

// Memory returns the size of the buffer of r, in bytes.
func Memory(r *Reader) int { return cap(r.window.buf) }

// BufferSlack is the size of the buffer in excess of MaxWhole and MaxHeader.
const BufferSlack = bufferSlack
