package pgtest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// A template is a data directory as initdb makes it. It ends with the process.
type template struct {
	data      string
	caretaker io.Closer // ends when it is no longer referenced
}

// removeDirectory waits for the end of its standard input, as cleanUp does.
const removeDirectory = `trap '' INT TERM HUP; cat >/dev/null; rm -rf "$1"`

// initialized is the template of all clusters of the process: copying it takes a fraction of
// the time of initdb.
var initialized = sync.OnceValues(func() (*template, error) {
	initdb, err := program("initdb", "postgresql")
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := who.tempDir()
	if err != nil {
		return nil, err
	}
	caretaker, err := who.background(dir, "sh", "-c", removeDirectory, "sh", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	data := filepath.Join(dir, "data")
	if err := who.run(dir, initdb, "-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, errors.Join(err, caretaker.Close())
	}
	return &template{data, caretaker}, nil
})
