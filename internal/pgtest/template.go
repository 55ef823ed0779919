package pgtest

import (
	"errors"
	"io"
	"path/filepath"
	"sync"
)

// A template is a data directory as made by initdb. It is removed when the process ends.
type template struct {
	data      string
	caretaker io.Closer // removes the directory when it is garbage-collected
}

// removeDirectory is the script that [owner.workspace] starts for a template.
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
	dir, caretaker, err := who.workspace(removeDirectory)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := who.run(dir, initdb, "-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, errors.Join(err, caretaker.Close())
	}
	return &template{data, caretaker}, nil
})
