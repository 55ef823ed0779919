// Package memory is a driver for [storage.Store] that keeps everything in memory, for
// tests. It enforces the contract: it returns an error, where other drivers may not, for a body that
// differs when read again or does not match its digest, a key nested below another one, and use after
// Close.
package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/storage"
)

// ErrMisuse is matched by errors caused by a bug in the calling program.
var ErrMisuse = errors.New("contract of the store is violated")

// A Store is a store in memory. It implements [storage.Store],
// [storage.KeyWatcher] and [storage.Clock].
type Store struct {
	mu       sync.RWMutex
	objects  map[string]object
	versions uint64 // number of versions assigned so far
	watches  map[*watch]struct{}
	closed   bool
}

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.KeyWatcher = (*Store)(nil)
	_ storage.Clock      = (*Store)(nil)
)

// An object is one state of an object. Its bytes never change; the next state may share them after an
// append.
type object struct {
	info storage.Info
	body []byte
}

// New returns an empty store.
func New() *Store {
	return &Store{objects: make(map[string]object), watches: make(map[*watch]struct{})}
}

// Open returns an empty store for the URL "memory:". It is a [storage.Opener].
func Open(_ context.Context, u *url.URL) (storage.Store, error) {
	if u.String() != "memory:" {
		return nil, fmt.Errorf("open URL %q: want memory:", u.Redacted())
	}
	return New(), nil
}

// Clone returns a store with the same objects at the same versions, for tests that begin with the same
// state many times.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := New()
	c.versions = s.versions
	for key, o := range s.objects {
		o.body = slices.Clip(o.body) // appends to one store must not change the bytes of another
		c.objects[key] = o
	}
	return c
}

// Create implements [storage.Store].
func (s *Store) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	data, err := s.prepare(ctx, key, meta, body)
	if err != nil {
		return "", failed("create", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; ok {
		return "", failed("create", key, storage.ErrExists)
	}
	if err := s.checkNesting(key); err != nil {
		return "", failed("create", key, err)
	}
	return s.put(key, meta, data), nil
}

// Append implements [storage.Store].
func (s *Store) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	data, err := s.prepare(ctx, key, meta, tail)
	if err != nil {
		return "", failed("append to", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.at(key, at)
	if err != nil {
		return "", failed("append to", key, err)
	}
	// The old state may share the array with the new one, but has its own length.
	return s.put(key, meta, append(old.body, data...)), nil
}

// Replace implements [storage.Store].
func (s *Store) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	data, err := s.prepare(ctx, key, meta, body)
	if err != nil {
		return "", failed("replace", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.at(key, at); err != nil {
		return "", failed("replace", key, err)
	}
	return s.put(key, meta, data), nil
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if offset < 0 {
		return nil, failed("get", key, fmt.Errorf("negative offset %d", offset))
	}
	o, err := s.find(ctx, key)
	if err != nil {
		return nil, failed("get", key, err)
	}
	part := o.body[min(offset, o.info.Size):]
	if length >= 0 && length < int64(len(part)) {
		part = part[:length]
	}
	return &storage.Object{Info: o.info, Body: io.NopCloser(bytes.NewReader(part))}, nil
}

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	o, err := s.find(ctx, key)
	if err != nil {
		return storage.Info{}, failed("stat", key, err)
	}
	return o.info, nil
}

func (s *Store) find(ctx context.Context, key string) (object, error) {
	if err := s.check(ctx); err != nil {
		return object{}, err
	}
	if err := storage.CheckKey(key); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, storage.ErrNotFound
	}
	o.info.Meta.Data = bytes.Clone(o.info.Meta.Data) // a copy, since the caller may change it
	return o, nil
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		keys, err := s.keys(ctx, prefix, after)
		if err != nil {
			yield(storage.Entry{}, fmt.Errorf("list %q: %w", prefix, err))
			return
		}
		for _, key := range keys {
			o, err := s.find(ctx, key)
			if errors.Is(err, storage.ErrNotFound) {
				continue // deleted since
			}
			if err != nil {
				yield(storage.Entry{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
			if !yield(storage.Entry{Key: key, Size: o.info.Size, Modified: o.info.Modified}, nil) {
				return
			}
		}
	}
}

func (s *Store) keys(ctx context.Context, prefix, after string) ([]string, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if err := storage.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for key := range s.objects {
		if key > after && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Names implements [storage.Namer].
func (s *Store) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := storage.CheckNames(prefix)
		var keys []string
		if err == nil {
			keys, err = s.keys(ctx, prefix, storage.AfterName(prefix, after))
		}
		if err != nil {
			yield("", fmt.Errorf("list names below %q: %w", prefix, err))
			return
		}
		last := ""
		for _, key := range keys {
			name, ok := storage.NameIn(prefix, key)
			if !ok || name == last {
				continue
			}
			last = name
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.check(ctx); err != nil {
		return failed("delete", key, err)
	}
	if err := storage.CheckKey(key); err != nil {
		return failed("delete", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; ok {
		delete(s.objects, key)
		s.notify(key)
	}
	return nil
}

// Close ends all watches.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for w := range s.watches {
		s.drop(w)
	}
	return nil
}

// Now returns the time that also stamps [storage.Info.Modified].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.check(ctx); err != nil {
		return time.Time{}, fmt.Errorf("read clock of store: %w", err)
	}
	return now(), nil
}

func now() time.Time { return time.Now().UTC().Round(0) }

// put adds a new state of key. The caller must hold mu.
func (s *Store) put(key string, meta storage.Meta, body []byte) storage.Version {
	s.versions++
	meta.Data = bytes.Clone(meta.Data)
	info := storage.Info{
		Key:      key,
		Version:  storage.Version(strconv.FormatUint(s.versions, 10)),
		Size:     int64(len(body)),
		Modified: now(),
		Meta:     meta,
	}
	s.objects[key] = object{info: info, body: body}
	s.notify(key)
	return info.Version
}

// at returns the state of the object if it has the given version. The caller must hold mu.
func (s *Store) at(key string, at storage.Version) (object, error) {
	o, ok := s.objects[key]
	switch {
	case !ok:
		return object{}, fmt.Errorf("%w: it is gone", storage.ErrConflict)
	case o.info.Version != at:
		return object{}, fmt.Errorf("%w: %s, want %s", storage.ErrConflict, o.info.Version, at)
	}
	return o, nil
}

// prepare makes the checks that are common to all writes, and reads the body.
func (s *Store) prepare(ctx context.Context, key string, meta storage.Meta, body storage.Body) ([]byte, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if err := storage.CheckKey(key); err != nil {
		return nil, err
	}
	if err := storage.CheckMeta(meta); err != nil {
		return nil, err
	}
	data, err := read(ctx, body)
	if err != nil {
		return nil, err
	}
	// Other drivers may open a body again to retry the write.
	again, err := read(ctx, body)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(data, again) {
		return nil, fmt.Errorf("%w: the body has different bytes when opened again", ErrMisuse)
	}
	// Other drivers may also trust the digest of the body.
	if d, ok := body.(storage.Digested); ok {
		if sum := sha256.Sum256(data); !bytes.Equal(d.SHA256().Sum(nil), sum[:]) {
			return nil, fmt.Errorf("%w: the body does not have its declared SHA-256", ErrMisuse)
		}
	}
	return data, nil
}

func read(ctx context.Context, body storage.Body) ([]byte, error) {
	r, err := storage.OpenExact(body)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	_, err = io.Copy(&data, r)
	if cerr := r.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close body: %w", cerr)
	}
	if err == nil {
		err = ctx.Err()
	}
	return data.Bytes(), err
}

func (s *Store) check(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return fmt.Errorf("%w: used after Close", ErrMisuse)
	}
	return ctx.Err()
}

// checkNesting returns an error if key begins with an existing key followed by "/", or the other way
// round. The caller must hold mu.
func (s *Store) checkNesting(key string) error {
	for i := range len(key) {
		if _, ok := s.objects[key[:i]]; ok && key[i] == '/' {
			return fmt.Errorf("%w: there is an object %q", ErrMisuse, key[:i])
		}
	}
	for other := range s.objects {
		if strings.HasPrefix(other, key) && other[len(key)] == '/' {
			return fmt.Errorf("%w: there is an object %q", ErrMisuse, other)
		}
	}
	return nil
}

func failed(verb, key string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
