// Package hostlock locks a sink on a server against other consumers of the same user on this
// host.
package hostlock

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/feedctl/feedctl/sink/internal/durable"
)

// A Lock is a locked file in [os.TempDir], which excludes other processes of the same user on
// this host. It is for servers that have neither locks nor sessions.
type Lock struct{ file *durable.File }

// Take locks the sink with the given kind, such as "couchdb", and name. The error matches
// [sink.ErrLocked] if it is locked.
func Take(kind, name string) (*Lock, error) {
	sum := sha256.Sum256([]byte(name))
	path := filepath.Join(os.TempDir(), fmt.Sprintf("feedctl-%s-%d-%x.lock", kind, os.Getuid(), sum[:16]))
	for {
		file, err := durable.FS{}.Open(path, os.O_CREATE|durable.NoFollow)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if err := file.Lock(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		ours, errOurs := file.Stat()
		theirs, errTheirs := os.Lstat(path)
		if errOurs == nil && errTheirs == nil && os.SameFile(ours, theirs) {
			return &Lock{file}, nil
		}
		if err := file.Close(); err != nil { // removed by its previous owner
			return nil, fmt.Errorf("close lock: %w", err)
		}
	}
}

// Release releases the lock, which may be nil, and removes the file. On Windows it leaves the
// file: an open file cannot be removed, and a closed one may be in use by another process.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	if runtime.GOOS == "windows" {
		return l.file.Close()
	}
	return errors.Join(durable.FS{}.Remove(l.file.Name()), l.file.Close())
}
