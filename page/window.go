package page

import "io"

const (
	firstBuffer   = 64 << 10 // a window's buffer begins with this size
	bufferSlack   = 64 << 10 // and may exceed what it must hold by this much
	minRead       = 4 << 10  // do not ask the source for less, unless at the limit
	maxEmptyReads = 100      // then the source is broken
)

// A window shows the part of a page that has been read and not yet consumed.
// Its bytes stay where they are until the next call of more, so slices of them
// may be handed out. Bytes consumed last can be kept, and then move with it.
type window struct {
	src io.Reader
	err error // what the source ended with; nil while it may have more

	buf      []byte
	pos, end int   // buf[pos:end] is the window
	keep     int   // so many bytes before pos are still needed
	moves    int   // how often the bytes were moved or given up
	base     int64 // where in the page buf[0] is
	max      int   // limit of len(buf)
}

func (w *window) reset(src io.Reader) {
	w.src, w.err = src, nil
	w.pos, w.end, w.keep, w.base = 0, 0, 0, 0
	w.moves++
}

func (w *window) bytes() []byte { return w.buf[w.pos:w.end] }

func (w *window) kept() []byte { return w.buf[w.pos-w.keep : w.pos] }

// ended reports whether the page is known to end where the window ends.
func (w *window) ended() bool { return w.err == io.EOF }

// offset returns where in the page the window starts.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// size returns how much of the page has been read.
func (w *window) size() int64 { return w.base + int64(w.end) }

func (w *window) advance(n int) { w.pos += n }

// more makes the window longer, or finds out that the source has ended, which
// a look at ended tells. Once the source has ended, more returns its error.
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
// behind it, and doubles the buffer if that is not enough.
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
