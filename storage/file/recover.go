//go:build unix

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// LeftoverKeys implements [storage.Recoverer].
func (s *Store) LeftoverKeys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.CheckPrefix(prefix); err != nil {
			yield("", fmt.Errorf("list remains: %w", err))
			return
		}
		l := &lister{store: s, ctx: ctx, prefix: prefix, parts: true, yield: func(e storage.Entry, err error) bool { return yield(e.Key, err) }}
		if _, err := l.walk(prefix); err != nil {
			yield("", fmt.Errorf("list remains of %q: %w", prefix, err))
		}
	}
}

// Leftovers implements [storage.Recoverer]. The states are those in the metadata file, and the
// state in the spare file of layout 1.
func (s *Store) Leftovers(ctx context.Context, key string) ([]storage.Leftover, error) {
	if err := storage.CheckKey(key); err != nil {
		return nil, failed("recover", key, err)
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return nil, failed("recover", key, err)
	}
	defer unlock()
	states := recoverStates(s.metaPath(key))
	current := ""
	if len(states) > 0 {
		current = states[0].Body
	}
	states = append(states, recoverStates(s.inObjects(key)+spareSuffix)...)
	var leftovers []storage.Leftover
	err = eachName(s.inObjects(dirOf(key)), func(name string) error {
		id, ok := strings.CutPrefix(name, key[strings.LastIndexByte(key, '/')+1:]+"@")
		if !ok || !isID(id) {
			return nil
		}
		r, size, err := s.idle(key, id)
		if err != nil {
			return err
		}
		r.Current = current == id
		for _, st := range states {
			if st.Body == id {
				r.Size = max(r.Size, min(st.Size, size))
				r.States = append(r.States, st.info(key))
			}
		}
		if r.Size > 0 {
			leftovers = append(leftovers, r)
		}
		return nil
	})
	if err != nil {
		return nil, failed("recover", key, err)
	}
	slices.SortFunc(leftovers, func(a, b storage.Leftover) int { return b.Modified.Compare(a.Modified) })
	return leftovers, nil
}

// recoverStates returns the readable states in a metadata file, the newest first.
func recoverStates(path string) []*state {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	r := decodeRecord(data)
	newest := r.newest()
	states := []*state{r.states[newest], r.states[1-newest]}
	if r.agree() {
		states = states[:1]
	}
	return slices.DeleteFunc(states, func(st *state) bool { return st == nil })
}

// idle returns a leftover body, without states, and the size of its file, which includes the room
// for appends. If a writer has the file open, it returns a body of size 0.
func (s *Store) idle(key, id string) (r storage.Leftover, size int64, err error) {
	f, err := os.Open(s.bodyPath(key, id))
	if errors.Is(err, fs.ErrNotExist) {
		return r, 0, nil
	} else if err != nil {
		return r, 0, refusal(err)
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return r, 0, nil
	} else if err != nil {
		return r, 0, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return r, 0, err
	}
	end := make([]byte, min(room, info.Size()))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return r, 0, err
	}
	zeros := len(end) - len(bytes.TrimRight(end, "\x00"))
	return storage.Leftover{Key: key, Body: id, Size: info.Size() - int64(zeros), Modified: info.ModTime().UTC()}, info.Size(), nil
}

// OpenLeftover implements [storage.Recoverer].
func (s *Store) OpenLeftover(_ context.Context, r storage.Leftover) (io.ReadCloser, error) {
	f, err := os.Open(s.bodyPath(r.Key, r.Body))
	if err != nil {
		return nil, failed("recover", r.Key, refusal(err))
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, r.Size), f}, nil
}

// Restore implements [storage.Recoverer]. It writes a metadata file that names the leftover body
// file.
func (s *Store) Restore(ctx context.Context, r storage.Leftover, size int64, meta storage.Meta) (storage.Version, error) {
	err := checkWrite(ctx, r.Key, meta)
	if err == nil {
		err = s.upgrade()
	}
	if err != nil {
		return "", failed("restore", r.Key, err)
	}
	unlock, err := s.locks.lock(ctx, r.Key)
	if err != nil {
		return "", failed("restore", r.Key, err)
	}
	defer unlock()
	st := newState(meta, r.Body, size)
	body, err := s.openBody(r.Key, &st, os.O_RDONLY)
	if err != nil {
		return "", failed("restore", r.Key, err)
	}
	defer body.Close()
	if _, err := s.commit(ctx, r.Key, st, false, os.Rename, body.Sync); err != nil {
		return "", failed("restore", r.Key, err)
	}
	return st.Version, nil
}
