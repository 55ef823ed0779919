package feedstore

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// These constants limit how many files are kept open, and for how long.
const (
	maxOpenFiles = 128
	// openFileAge is how long requests may use a file, counted from before its metadata was read. It is as
	// long as they may use a floor. A file that stays idle is closed at most another openFileAge later, since
	// it occupies space even if its page is deleted.
	openFileAge = floorAge
)

// openFiles keeps open, between requests, the files of pages that have a next page, so that requests for the
// same page in quick succession share the metadata in the store and the open file. Only one request at a time
// uses a file.
type openFiles struct {
	mu     sync.Mutex
	idle   []*openFile // the most recently used last
	timer  *time.Timer // runs while there are idle files
	closed bool
}

// An openFile is a page in the store, together with its open file.
type openFile struct {
	key    pageKey
	page   *chain.Page
	object *storage.Object
	body   sendable // the body of object
	until  time.Time
}

// A sendable is a body that a connection can send without reading it, and that can be rewound.
type sendable interface {
	io.ReadCloser
	io.WriterTo
	rewinder
}

// take returns an idle file of a page for a request, or nil if there is none.
func (o *openFiles) take(key pageKey) *openFile {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, f := range slices.Backward(o.idle) {
		if f.key == key && now.Before(f.until) {
			o.idle = slices.Delete(o.idle, i, i+1)
			return f
		}
	}
	return nil
}

// put makes a file idle, or closes it if it cannot be used again. It may close another idle file to make
// room.
func (o *openFiles) put(f *openFile) error {
	if !time.Now().Before(f.until) {
		return f.body.Close()
	}
	if err := f.body.Rewind(); err != nil {
		return f.body.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return f.body.Close()
	}
	var err error
	if len(o.idle) == maxOpenFiles {
		err = o.idle[0].body.Close()
		o.idle = slices.Delete(o.idle, 0, 1)
	}
	o.idle = append(o.idle, f)
	if o.timer == nil {
		o.timer = time.AfterFunc(openFileAge, o.expire)
	}
	return err
}

// expire closes the idle files that are too old.
func (o *openFiles) expire() {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = slices.DeleteFunc(o.idle, func(f *openFile) bool {
		old := !now.Before(f.until)
		if old {
			_ = f.body.Close() // read only
		}
		return old
	})
	if o.timer = nil; len(o.idle) > 0 {
		o.timer = time.AfterFunc(openFileAge, o.expire)
	}
}

// close closes the idle files. Those in use are closed when their requests end.
func (o *openFiles) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	for _, f := range o.idle {
		_ = f.body.Close() // read only
	}
	o.idle = nil
}

// A lentFile is the whole body of a page in an open file. It implements [io.WriterTo].
type lentFile struct {
	file  *openFile
	files *openFiles
	begun bool // whether something was read
	whole bool // the body was read to the end without an error
}

func (b *lentFile) Read(p []byte) (int, error) {
	n, err := b.file.body.Read(p)
	b.begun, b.whole = true, err == io.EOF
	return n, err
}

func (b *lentFile) WriteTo(w io.Writer) (int64, error) {
	n, err := b.file.body.WriteTo(w)
	b.begun, b.whole = true, err == nil
	return n, err
}

// Close makes the file idle, or closes it. It must be called only once.
func (b *lentFile) Close() error {
	if b.begun && !b.whole {
		return b.file.body.Close()
	}
	return b.files.put(b.file)
}
