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

// lockFiles is the number of lock files. It is part of the layout: all processes must use the same
// lock file for a key.
const lockFiles = 256

// locks provides mutual exclusion between the writers of a key: between processes, by flock on a
// file, and within a process, by a channel, so that at most one thread waits for each file.
type locks struct {
	dir     string
	holders [lockFiles]chan struct{} // full while a goroutine holds, or waits for, the lock on the file
	files   [lockFiles]*os.File      // guarded by holders; nil until opened
}

func newLocks(dir string) *locks {
	l := &locks{dir: dir}
	for i := range l.holders {
		l.holders[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits until the caller is the only writer of key, or ctx ends. The system
// releases the locks of a process that is killed.
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
		// A flock that waits cannot be cancelled. Release the lock when the flock has acquired it.
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

// open returns a lock file and keeps it open: opening a file with O_CREATE blocks
// other operations in its directory for a while.
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

// close closes the files that are not in use. The garbage collector closes the others.
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
