package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/regular"
)

// A replacing describes a batch that takes part in replacing the data of the directory: the metadata of each
// file that the batch writes records the number of the batch.
type replacing struct {
	on      bool
	since   int64 // the first batch of the replacement, or 0
	remove  bool  // files that have not been written since then are removed
	removed int64 // number of files removed
}

// BeginReplace makes the batch record its number.
func (t *target) BeginReplace(_ context.Context, begins bool) error {
	t.batch.replacing = replacing{on: true, since: t.committed.Replacing}
	if begins {
		t.batch.since = t.committed.Batch + 1
	}
	return nil
}

// appendReplaced appends the member of the metadata that says in which batch a file was written.
func (t *target) appendReplaced(meta []byte) []byte {
	meta = append(meta, `"replaced":`...)
	return append(strconv.AppendInt(meta, t.committed.Batch+1, 10), ',')
}

// RemoveOthers makes the commit remove the files that have not been written since the replacement began.
func (t *target) RemoveOthers(context.Context) error {
	if t.batch.since == 0 {
		return consumer.ErrNoReplacement
	}
	t.batch.remove = true
	return nil
}

// Removed returns how many files the last commit has removed.
func (t *target) Removed() int64 { return t.batch.removed }

// changes yields the changes of the batch, and then the removals of files that the snapshot does not have.
func (t *target) changes() iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		for name, staged := range t.batch.changes {
			if !yield(change{name, staged}, nil) {
				return
			}
		}
		if !t.batch.remove {
			return
		}
		t.batch.removed = 0
		if err := t.others(func(name string) bool { t.batch.removed++; return yield(change{Name: name}, nil) }); err != nil {
			yield(change{}, err)
		}
	}
}

// namesAtOnce is how many names of files are read at a time.
const namesAtOnce = 1000

// others calls fn with the names of files that have not been written since the replacement began, until fn
// returns false.
func (t *target) others(fn func(name string) bool) error {
	meta, err := os.Open(t.meta())
	if err != nil {
		return err
	}
	defer meta.Close()
	for {
		files, err := meta.ReadDir(namesAtOnce)
		for _, file := range files {
			name, ok := strings.CutSuffix(file.Name(), ".json")
			if _, changed := t.batch.changes[name]; !ok || changed {
				continue
			}
			written, err := t.writtenIn(name)
			if err != nil {
				return err
			}
			if written < t.batch.since && !fn(name) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writtenIn returns the number of the batch that wrote a file as part of a replacement, or 0.
func (t *target) writtenIn(name string) (int64, error) {
	data, err := regular.ReadFile(t.metaFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var written struct {
		Replaced int64 `json:"replaced"`
	}
	if err == nil {
		err = json.Unmarshal(data, &written)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", filepath.Base(t.metaFile(name)), err)
	}
	return written.Replaced, nil
}
