package lintest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
)

// A recorder performs the operations of one client and records them in a history. Failed
// reads are not recorded.
type recorder struct {
	history *history
	client  int
	store   storage.Store
	random  *rand.Rand
}

// dawdle yields, so that even short operations overlap.
func (r *recorder) dawdle() {
	for range r.random.IntN(4) {
		runtime.Gosched()
	}
}

// write performs a write and returns the new version, or "" if it failed.
func (r *recorder) write(ctx context.Context, c objectCall) (version storage.Version) {
	meta, body := storage.Meta{Data: []byte(c.mark)}, storage.Bytes([]byte(c.bytes))
	called := r.history.time()
	r.dawdle()
	var err error
	switch c.verb {
	case fault.Create:
		version, err = r.store.Create(ctx, c.key, meta, body)
	case fault.Append:
		version, err = r.store.Append(ctx, c.key, c.at, meta, body)
	case fault.Replace:
		version, err = r.store.Replace(ctx, c.key, c.at, meta, body)
	case fault.Delete:
		err = r.store.Delete(ctx, c.key)
	}
	r.dawdle()
	returned := r.history.time()
	result := objectResult{outcome: done, version: version}
	switch {
	case errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrConflict):
		result = objectResult{outcome: refused}
	case err != nil:
		result, returned = objectResult{outcome: unknown}, never
	}
	r.history.add(r.client, c, result, called, returned)
	return result.version
}

// get reads an object or a range of it. The state that it returns existed at some moment before Get
// returned, however long reading the body takes.
func (r *recorder) get(ctx context.Context, c objectCall) storage.Version {
	called := r.history.time()
	r.dawdle()
	o, err := r.store.Get(ctx, c.key, c.offset, c.length)
	r.dawdle()
	returned := r.history.time()
	result := objectResult{outcome: refused}
	if err == nil {
		var body []byte
		body, err = io.ReadAll(o.Body)
		err = errors.Join(err, o.Body.Close())
		result = objectResult{outcome: done, version: o.Version, mark: string(o.Meta.Data), bytes: string(body), size: o.Size}
	} else if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	if err == nil {
		r.history.add(r.client, c, result, called, returned)
	}
	return result.version
}

func (r *recorder) stat(ctx context.Context, c objectCall) storage.Version {
	called := r.history.time()
	r.dawdle()
	info, err := r.store.Stat(ctx, c.key)
	r.dawdle()
	returned := r.history.time()
	result := objectResult{outcome: refused}
	if err == nil {
		result = objectResult{outcome: done, version: info.Version, mark: string(info.Meta.Data), size: info.Size}
	} else if !errors.Is(err, storage.ErrNotFound) {
		return ""
	}
	r.history.add(r.client, c, result, called, returned)
	return result.version
}

// list lists all keys. Each key is one read, since a listing need not be consistent
// across objects.
func (r *recorder) list(ctx context.Context, keys []string) {
	called := r.history.time()
	r.dawdle()
	found := map[string]bool{}
	prefix := keys[0][:strings.LastIndexByte(keys[0], '/')+1]
	for entry, err := range r.store.List(ctx, prefix, "") {
		if err != nil {
			return
		}
		found[entry.Key] = true
	}
	r.dawdle()
	returned := r.history.time()
	for _, key := range keys {
		result := objectResult{outcome: refused}
		if found[key] {
			result = objectResult{outcome: done}
		}
		r.history.add(r.client, objectCall{verb: fault.List, key: key}, result, called, returned)
	}
}

func padding(random *rand.Rand) string {
	return string(bytes.Repeat([]byte("."), random.IntN(3)*random.IntN(40)))
}
