//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/feedctl/feedctl/internal/filepart"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/storage"
)

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	st, err := s.stat(ctx, key)
	if err != nil {
		return storage.Info{}, failed("stat", key, err)
	}
	return st.info(key), nil
}

func (s *Store) stat(ctx context.Context, key string) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := storage.CheckKey(key); err != nil {
		return nil, err
	}
	return s.readState(key)
}

// Get implements [storage.Store]. The Body implements [io.WriterTo]: copying it to a
// network connection or an http.ResponseWriter does not copy it through user space.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if offset < 0 {
		return nil, failed("get", key, fmt.Errorf("negative offset %d", offset))
	}
	st, f, err := s.openState(ctx, key)
	if err != nil {
		return nil, failed("get", key, err)
	}
	offset = min(offset, st.Size)
	if rest := st.Size - offset; length < 0 || length > rest {
		length = rest
	}
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			f.Close()
			return nil, failed("get", key, err)
		}
	}
	return &storage.Object{
		Info: st.info(key),
		Body: filepart.New(f, length),
	}, nil
}

// openState returns the current state of key, and opens its body file.
func (s *Store) openState(ctx context.Context, key string) (*state, *os.File, error) {
	var missed storage.Version
	for {
		st, err := s.stat(ctx, key)
		if err != nil {
			return nil, nil, err
		}
		f, err := s.openBody(key, st, os.O_RDONLY)
		switch {
		case err == nil:
			return st, f, nil
		case !errors.Is(err, fs.ErrNotExist) || st.Version == missed:
			return nil, nil, err
		}
		// The object was replaced or deleted after its metadata was read. If the metadata turns out
		// to be unchanged, the body is indeed missing.
		missed = st.Version
	}
}

// openBody opens the body file of st and checks that it is long enough. If flag is O_RDWR and an
// interrupted append left more than the room for appends, openBody also truncates the file.
func (s *Store) openBody(key string, st *state, flag int) (*os.File, error) {
	path := s.bodyPath(key, st.Body)
	f, err := regular.Open(path, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: file %s is missing; restore it: %w", storage.ErrLayout, path, err)
	} else if err != nil {
		return nil, refusal(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() < st.Size:
		err = damaged(path, fmt.Sprintf("%d bytes, want %d", info.Size(), st.Size))
	case info.Size()-st.Size > room && flag == os.O_RDWR:
		err = refusal(f.Truncate(st.Size))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
