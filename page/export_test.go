package page

// SetBuffer gives r a buffer that is too small to go on with for long, so that
// its bytes move and it grows also with small pages.
func SetBuffer(r *Reader, room int) { r.window.buf = make([]byte, minRead+room) }

// Memory returns how many bytes the buffer of r has.
func Memory(r *Reader) int { return cap(r.window.buf) }

// BufferSlack is what the buffer may have beyond MaxWhole and MaxHeader.
const BufferSlack = bufferSlack
