package page

import "io"

const (
	firstBuffer   = 64 << 10 // initial size of a window's buffer
	bufferSlack   = 64 << 10 // room in the buffer in addition to the largest header and body
	minRead       = 4 << 10  // smallest read, unless the buffer is at its limit
	maxEmptyReads = 100      // the number of empty reads after which more returns io.ErrNoProgress
)

// A window holds the bytes of a page that have been read but not consumed. They do not move until
// the next call of more, so slices of them may be returned to callers. The bytes that were consumed
// last can be kept; if they are, they move with the window.
type window struct {
	src io.Reader
	err error // how the source ended; nil if more bytes may follow

	buf      []byte
	own      []byte // the buffer to be used again later, while buf is a page in memory
	inMemory bool
	pos, end int   // buf[pos:end] is the window
	keep     int   // number of bytes before pos that must be kept
	moves    int   // how many times bytes have been moved or discarded
	base     int64 // offset of buf[0] in the page
	max      int   // limit of len(buf)
}

func (w *window) reset(src io.Reader) {
	if w.inMemory {
		w.buf, w.own, w.inMemory = w.own, nil, false
	}
	w.src, w.err = src, nil
	w.pos, w.end, w.keep, w.base = 0, 0, 0, 0
	w.moves++
}

// resetBytes makes the window consist of a whole page.
func (w *window) resetBytes(data []byte) {
	w.reset(nil)
	w.err = io.EOF
	w.own, w.buf, w.inMemory = w.buf, data, true
	w.end = len(data)
}

func (w *window) bytes() []byte { return w.buf[w.pos:w.end] }

func (w *window) kept() []byte { return w.buf[w.pos-w.keep : w.pos] }

// ended reports whether the page is known to end with the window.
func (w *window) ended() bool { return w.err == io.EOF }

func (w *window) offset() int64 { return w.base + int64(w.pos) }

// size returns the number of bytes of the page that have been read.
func (w *window) size() int64 { return w.base + int64(w.end) }

func (w *window) advance(n int) { w.pos += n }

// more extends the window, or discovers that the source has ended; see ended. If that was already
// known, more returns the error of the source.
func (w *window) more() error {
	if w.err != nil {
		return w.err
	}
	w.makeRoom()
	for range maxEmptyReads {
		n, err := w.src.Read(w.buf[w.end:])
		w.end += n
		w.err = err
		if n > 0 || err != nil {
			return nil
		}
	}
	w.err = io.ErrNoProgress
	return w.err
}

// makeRoom moves the window to the start of the buffer if there is little room
// after it, and doubles the buffer if that is not enough.
func (w *window) makeRoom() {
	if len(w.buf)-w.end >= minRead {
		return
	}
	start := w.pos - w.keep
	needed := w.end - start
	to := w.buf
	if size := min(max(2*len(w.buf), firstBuffer), w.max); needed > len(w.buf)-minRead && size > len(w.buf) {
		to = make([]byte, size)
	}
	copy(to, w.buf[start:w.end])
	w.base += int64(start)
	w.buf, w.pos, w.end = to, w.keep, needed
	w.moves++
}
