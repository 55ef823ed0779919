package memory_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Store { return memory.New() }, storagetest.Options{
		BodiesInMemory: true,
		Properties:     storage.Properties{Watches: true, Clock: true, Names: true},
	})
}

// TestMisuse: the driver reports misuse that other drivers may not detect.
func TestMisuse(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	body := storage.Bytes([]byte("x"))
	if _, err := s.Create(ctx, "a/b", storage.Meta{}, body); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		if _, err := s.Create(ctx, key, storage.Meta{}, body); !errors.Is(err, memory.ErrMisuse) {
			t.Errorf("Create %s next to a/b: %v", key, err)
		}
	}
	if _, err := s.Create(ctx, "a/bc", storage.Meta{}, body); err != nil {
		t.Error(err)
	}
	if _, err := s.Create(ctx, "c", storage.Meta{}, new(changingBody)); !errors.Is(err, memory.ErrMisuse) {
		t.Errorf("Create of a body that changes: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "a/b"); !errors.Is(err, memory.ErrMisuse) {
		t.Errorf("Stat after Close: %v", err)
	}
}

// A changingBody has different bytes each time it is opened.
type changingBody byte

func (b *changingBody) Size() int64 { return 1 }

func (b *changingBody) Open() (io.ReadCloser, error) {
	*b++
	return io.NopCloser(bytes.NewReader([]byte{byte(*b)})), nil
}

// TestClone appends to two copies of a store. Each copy must have only the bytes that were appended
// to it.
func TestClone(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	at, err := s.Create(ctx, "a", storage.Meta{}, storage.Bytes([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	if at, err = s.Append(ctx, "a", at, storage.Meta{}, storage.Bytes([]byte("y"))); err != nil { // the slice may have capacity left
		t.Fatal(err)
	}
	stores := map[string]*memory.Store{"xy": s, "xy1": s.Clone(), "xy2": s.Clone()}
	for want, store := range stores {
		if want == "xy" {
			continue
		}
		if _, err := store.Append(ctx, "a", at, storage.Meta{}, storage.Bytes([]byte(want[2:]))); err != nil {
			t.Error(err)
		}
	}
	for want, store := range stores {
		object, err := store.Get(ctx, "a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(object.Body); err != nil || string(got) != want {
			t.Errorf("store has %q, %v, want %q", got, err, want)
		}
	}
}
