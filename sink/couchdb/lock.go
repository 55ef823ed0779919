package couchdb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/feedctl/feedctl/sink/internal/durable"
)

// takeLock locks a file in [os.TempDir], which excludes other processes of the same user
// on this host. CouchDB has neither locks nor sessions that could replace it.
func (t *target) takeLock() error {
	sum := sha256.Sum256([]byte(t.db.URL() + "\n" + t.name))
	path := filepath.Join(os.TempDir(), fmt.Sprintf("feedctl-couchdb-%d-%x.lock", os.Getuid(), sum[:16]))
	for t.lock == nil {
		file, err := durable.FS{}.Open(path, os.O_CREATE|durable.NoFollow)
		if err != nil {
			return fmt.Errorf("open lock: %w", err)
		}
		if err := file.Lock(); err != nil {
			return errors.Join(err, file.Close())
		}
		ours, errOurs := file.Stat()
		theirs, errTheirs := os.Lstat(path)
		if errOurs == nil && errTheirs == nil && os.SameFile(ours, theirs) {
			t.lock = file
		} else if err := file.Close(); err != nil { // removed by its previous owner
			return fmt.Errorf("close lock: %w", err)
		}
	}
	return nil
}

// releaseLock releases the lock and removes the file. On Windows it leaves the file: an
// open file cannot be removed, and a closed one may be in use by another process.
func (t *target) releaseLock() error {
	if t.lock == nil {
		return nil
	}
	if runtime.GOOS == "windows" {
		return t.lock.Close()
	}
	return errors.Join(durable.FS{}.Remove(t.lock.Name()), t.lock.Close())
}
