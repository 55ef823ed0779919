//go:build unix

package file

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFiles is the number of lock files. It is part of the layout: all
// processes must agree which of them guards a key.
const lockFiles = 256

// locks excludes writers of one key from each other. Between processes the
// system's lock on a file does it. Inside a process a channel does, so that no
// more than one thread waits for each file.
type locks struct {
	dir     string
	holders [lockFiles]chan struct{} // holds a value while a goroutine has or awaits the file
	files   [lockFiles]*os.File      // belong to who holds; nil until they are needed
}

func newLocks(dir string) *locks {
	l := &locks{dir: dir}
	for i := range l.holders {
		l.holders[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits until the caller is the only writer of key, or ctx ends. Nothing
// is left behind by a process that dies: the system releases its locks.
func (l *locks) lock(ctx context.Context, key string) (func(), error) {
	h := fnv.New32a()
	h.Write([]byte(key))
	i := h.Sum32() % lockFiles
	select {
	case l.holders[i] <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for lock: %w", ctx.Err())
	}
	release := func() { <-l.holders[i] }

	f, err := l.open(i)
	if err != nil {
		release()
		return nil, refusal(err)
	}
	unlock := func() {
		_ = flock(f, unix.LOCK_UN)
		release()
	}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return unlock, nil
	case unix.EWOULDBLOCK:
	default:
		release()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}

	got := make(chan error, 1)
	go func() { got <- flock(f, unix.LOCK_EX) }()
	select {
	case err := <-got:
		if err != nil {
			release()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return unlock, nil
	case <-ctx.Done():
		// A waiting flock cannot be called off. Give the lock back when it comes.
		go func() {
			if <-got == nil {
				unlock()
			} else {
				release()
			}
		}()
		return nil, fmt.Errorf("wait for lock: %w", ctx.Err())
	}
}

// open returns a lock file, which stays open: to open a file that may have to be
// created keeps all others out of its directory for a while.
func (l *locks) open(i uint32) (*os.File, error) {
	if l.files[i] == nil {
		f, err := os.OpenFile(filepath.Join(l.dir, fmt.Sprintf("%02x", i)), os.O_RDONLY|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		l.files[i] = f
	}
	return l.files[i], nil
}

// close closes the files that nobody has. One that is in use is closed when it is
// no longer reachable.
func (l *locks) close() {
	for i, holder := range l.holders {
		select {
		case holder <- struct{}{}:
			if l.files[i] != nil {
				l.files[i].Close()
				l.files[i] = nil
			}
			<-holder
		default:
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
