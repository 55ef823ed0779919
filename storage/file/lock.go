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

	f, err := os.OpenFile(filepath.Join(l.dir, fmt.Sprintf("%02x", i)), os.O_RDONLY|os.O_CREATE, 0o666)
	if err != nil {
		release()
		return nil, refusal(err)
	}
	unlock := func() {
		// Not left to Close: a child that was just forked may share the file.
		_ = flock(f, unix.LOCK_UN)
		f.Close()
		release()
	}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return unlock, nil
	case unix.EWOULDBLOCK:
	default:
		f.Close()
		release()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}

	got := make(chan error, 1)
	go func() { got <- flock(f, unix.LOCK_EX) }()
	select {
	case err := <-got:
		if err != nil {
			f.Close()
			release()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return unlock, nil
	case <-ctx.Done():
		// A waiting flock cannot be called off. Give the lock back when it comes.
		go func() { <-got; unlock() }()
		return nil, fmt.Errorf("wait for lock: %w", ctx.Err())
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
