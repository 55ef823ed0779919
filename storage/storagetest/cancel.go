package storagetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

func testCancel(t *testing.T, s *suite) {
	key := s.key("a")
	s.create(t, key, storage.Meta{}, "body")
	s.create(t, s.key("b"), storage.Meta{}, "body")
	was := take(t, s.store, key)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := storage.Bytes([]byte("x"))

	_, err := s.store.Create(ctx, s.key("new"), storage.Meta{}, x)
	wantError(t, "Create", err, context.Canceled)
	_, err = s.store.Append(ctx, key, was.Info.Version, storage.Meta{}, x)
	wantError(t, "Append", err, context.Canceled)
	_, err = s.store.Replace(ctx, key, was.Info.Version, storage.Meta{}, x)
	wantError(t, "Replace", err, context.Canceled)
	_, err = s.store.Get(ctx, key, 0, -1)
	wantError(t, "Get", err, context.Canceled)
	_, err = s.store.Stat(ctx, key)
	wantError(t, "Stat", err, context.Canceled)
	wantError(t, "Delete", s.store.Delete(ctx, key), context.Canceled)
	unchanged(t, s.store, key, was)
	unchanged(t, s.store, s.key("new"), nil)

	var errs []error
	for _, err := range s.store.List(ctx, s.prefix, "") {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("List: got errors %v, want one", errs)
	}
	testCancelList(t, s)
	testCancelBody(t, s, was)
	testCancelWaiting(t, s)
}

// testCancelList cancels a listing after its first entry.
func testCancelList(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entries := 0
	var last error
	for _, err := range s.store.List(ctx, s.prefix, "") {
		if last = err; err == nil {
			entries++
		}
		cancel()
	}
	if entries != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("List cancelled after its first entry: %d entries, error %v", entries, last)
	}
}

// A cancelReader cancels a context when it is first read.
type cancelReader struct {
	io.Reader
	cancel func()
}

func (r cancelReader) Read(p []byte) (int, error) {
	r.cancel()
	return r.Reader.Read(p[:min(len(p), 1000)])
}

// testCancelBody cancels a write while its body is being read.
func testCancelBody(t *testing.T, s *suite, was *snapshot) {
	data := strings.Repeat("x", 1<<20)
	key := was.Info.Key
	for name, write := range map[string]func(context.Context, storage.Body) error{
		"Create": func(ctx context.Context, body storage.Body) error {
			_, err := s.store.Create(ctx, s.key("new"), storage.Meta{}, body)
			return err
		},
		"Append": func(ctx context.Context, body storage.Body) error {
			_, err := s.store.Append(ctx, key, was.Info.Version, storage.Meta{}, body)
			return err
		},
		"Replace": func(ctx context.Context, body storage.Body) error {
			_, err := s.store.Replace(ctx, key, was.Info.Version, storage.Meta{}, body)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := write(ctx, testBody{int64(len(data)), func() (io.ReadCloser, error) {
			return io.NopCloser(cancelReader{strings.NewReader(data), cancel}), nil
		}})
		cancel()
		wantError(t, name+" cancelled while it reads the body", err, context.Canceled)
		unchanged(t, s.store, key, was)
		unchanged(t, s.store, s.key("new"), nil)
	}
}

// testCancelWaiting cancels a write that may be waiting for another write, whose body is delayed.
func testCancelWaiting(t *testing.T, s *suite) {
	key := s.key("waiting")
	version := s.create(t, key, storage.Meta{}, "")
	opened, release, done := make(chan struct{}, 2), make(chan struct{}), make(chan error)
	go func() {
		_, err := s.store.Append(t.Context(), key, version, storage.Meta{}, testBody{1, func() (io.ReadCloser, error) {
			opened <- struct{}{}
			<-release
			return io.NopCloser(strings.NewReader("1")), nil
		}})
		done <- err
	}()
	<-opened
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() {
		_, err := s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("2")))
		second <- err
	}()
	cancel()
	err2 := <-second
	close(release)
	err1 := <-done

	// In a store without locks, the second write may have succeeded.
	if err2 != nil && !errors.Is(err2, context.Canceled) {
		t.Errorf("cancelled Append: %v", err2)
	}
	if err2 != nil && err1 != nil || err2 == nil && !errors.Is(err1, storage.ErrConflict) {
		t.Errorf("first Append: %v; second Append: %v", err1, err2)
	}
}
