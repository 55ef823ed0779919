package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

const (
	// faultPart is the size of parts in these tests, which is S3's minimum.
	faultPart = 5 << 20
	// faultMemory is the limit of the stores' memory: an object is large if it exceeds a sixteenth of
	// the limit.
	faultMemory = 1 << 20
)

// calls returns calls of every method of a store, on each kind of object.
func calls() []call {
	plain := storage.Meta{ContentType: "text/plain", CacheControl: "no-cache", Data: []byte("data of the old state")}
	other := storage.Meta{ContentType: "text/html", CacheControl: "no-store", Data: []byte("data of the new state")}
	static := storage.Meta{ContentType: "text/plain", CacheControl: "public, max-age=31536000, immutable", Data: []byte("static")}
	long := storage.Meta{ContentType: "text/plain", CacheControl: "no-cache", Data: noise(1, 5000)}
	longer := storage.Meta{ContentType: "text/plain", CacheControl: "no-cache", Data: noise(2, 9000)}
	small, next, tail := []byte("the content of the old state, which is somewhat longer"), []byte("the content of the new state, which is not the same"), []byte(", and more")
	parted := noise(5, faultPart+3000)
	big, bigger := noise(3, faultMemory/16+3000), noise(4, faultMemory/8+7)

	all := []call{
		callCreate("create", &faultState{plain, small}),
		callCreate("create empty", &faultState{}),
		callCreate("create static", &faultState{static, small}),
		callCreate("create with long metadata", &faultState{long, small}),
		callRefused(callCreate("create over an existing object", &faultState{other, next}), &faultState{plain, small}, storage.ErrExists),
		callRefused(callCreate("create over an identical object", &faultState{plain, small}), &faultState{plain, small}, storage.ErrExists),
		callAppend("append", &faultState{plain, small}, other, tail),
		callAppend("append nothing", &faultState{plain, small}, plain, nil),
		callAppend("append to nothing", &faultState{plain, nil}, other, tail),
		callAppend("append, metadata becomes long", &faultState{plain, small}, long, tail),
		callAppend("append, metadata is long", &faultState{long, small}, longer, tail),
		callAppend("append, metadata becomes short", &faultState{long, small}, plain, tail),
		callReplace("replace", &faultState{plain, small}, &faultState{other, next}),
		callReplace("replace with the same", &faultState{plain, small}, &faultState{plain, small}),
		callReplace("replace with nothing", &faultState{long, small}, &faultState{}),
		callDelete("delete", &faultState{plain, small}),
		callDelete("delete nothing", nil),
		callGet("get", &faultState{plain, small}, 0, -1),
		callGet("get static", &faultState{static, small}, 0, -1),
		callGet("get empty", &faultState{plain, nil}, 0, -1),
		callGet("get with long metadata", &faultState{long, small}, 0, -1),
		callGet("get a range", &faultState{plain, small}, 5, 20),
		callGet("get a range, with long metadata", &faultState{long, small}, 5, 20),
		callGet("get from the middle", &faultState{plain, small}, 20, -1),
		callGet("get beyond the end", &faultState{plain, small}, 1000, -1),
		callMissing("get nothing", func(ctx context.Context, s storage.Store, key string) error {
			_, err := s.Get(ctx, key, 0, -1)
			return err
		}),
		callStat("stat", &faultState{plain, small}),
		callStat("stat with long metadata", &faultState{long, small}),
		callMissing("stat nothing", func(ctx context.Context, s storage.Store, key string) error {
			_, err := s.Stat(ctx, key)
			return err
		}),
		callList(),
	}
	for _, c := range []call{
		callAppend("append at an old version", &faultState{plain, small}, other, tail),
		callReplace("replace at an old version", &faultState{plain, small}, &faultState{other, next}),
	} {
		c.stale, c.want, c.after = true, storage.ErrConflict, c.before
		all = append(all, c)
	}
	for _, c := range slices.Clip(all) {
		if strings.HasPrefix(c.name, "append") && !c.stale || c.name == "get" || c.name == "get with long metadata" {
			c.name, c.own = c.name+", written by the same store", true
			all = append(all, c)
		}
	}
	for _, c := range []call{
		callCreate("create large", &faultState{plain, big}),
		callCreate("create large and static", &faultState{static, big}),
		callRefused(callCreate("create large over an existing object", &faultState{plain, big}), &faultState{plain, small}, storage.ErrExists),
		callAppend("append to large", &faultState{plain, big}, other, tail),
		{
			name: "append large", before: &faultState{plain, small}, do: doAppend(other, big),
			after: &faultState{other, append(bytes.Clone(small), big...)},
		},
		callReplace("replace with large", &faultState{plain, small}, &faultState{long, bigger}),
		callReplace("replace large", &faultState{long, big}, &faultState{plain, small}),
		callGet("get large", &faultState{plain, big}, 0, -1),
		callStat("stat large", &faultState{long, big}),
		callDelete("delete large", &faultState{plain, big}),
		callRange("get a range of large", &faultState{long, big}, 100, 50000),
		callRange("get the end of large", &faultState{plain, bigger}, faultMemory/16+1, -1),
		callCreate("create parts", &faultState{plain, parted}),
		callRefused(callCreate("create parts over an existing object", &faultState{plain, parted}), &faultState{plain, small}, storage.ErrExists),
		callAppend("append to parts", &faultState{plain, parted}, other, tail),
		callReplace("replace with parts", &faultState{plain, small}, &faultState{long, parted}),
		callGet("get parts", &faultState{plain, parted}, 0, -1),
	} {
		c.large = true
		c.parts = strings.Contains(c.name, "parts")
		all = append(all, c)
	}
	for i := range all {
		if all[i].read {
			all[i].after = all[i].before
		}
	}
	return all
}

// A callFunc calls a method for the object at key, with the version at. If the result of a read is
// wrong, it returns a wrongReadError.
type callFunc func(ctx context.Context, store storage.Store, key string, at storage.Version) (storage.Version, error)

// A call is a call of a store's method, with the state of the object before it and the expected
// outcome.
type call struct {
	name string
	// before is the state of the object before the call, written by Create and, if own is set, by
	// Append.
	before *faultState
	own    bool     // the object was written by the same store, which may have cached it
	below  []string // suffixes of the key that make the keys of further objects
	do     callFunc
	read   bool        // the method changes nothing
	after  *faultState // after a successful call
	want   error       // without a fault
	stale  bool        // the method is called with an earlier version of the object
	large  bool        // the body is too large to be read whole
	parts  bool        // the body is uploaded in parts, which is slow
	// unverified means that a range of a large object is read, so a wrong byte cannot be detected.
	unverified bool
}

// redundant reports whether another call sends the same requests as c, though perhaps with other
// bodies.
func (c call) redundant() bool {
	return c.own || c.large || strings.Contains(c.name, " ") && c.want == nil
}

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func callCreate(name string, o *faultState) call {
	return call{name: name, after: o, do: func(ctx context.Context, s storage.Store, key string, _ storage.Version) (storage.Version, error) {
		return s.Create(ctx, key, o.meta, storage.Bytes(o.body))
	}}
}

func callRefused(c call, before *faultState, want error) call {
	c.before, c.after, c.want = before, before, want
	return c
}

func callAppend(name string, before *faultState, meta storage.Meta, tail []byte) call {
	return call{
		name: name, before: before, do: doAppend(meta, tail),
		after: &faultState{meta, append(bytes.Clone(before.body), tail...)},
	}
}

func doAppend(meta storage.Meta, tail []byte) callFunc {
	return func(ctx context.Context, s storage.Store, key string, at storage.Version) (storage.Version, error) {
		return s.Append(ctx, key, at, meta, storage.Bytes(tail))
	}
}

func callReplace(name string, before, after *faultState) call {
	return call{name: name, before: before, after: after, do: func(ctx context.Context, s storage.Store, key string, at storage.Version) (storage.Version, error) {
		return s.Replace(ctx, key, at, after.meta, storage.Bytes(after.body))
	}}
}

func callDelete(name string, before *faultState) call {
	return call{name: name, before: before, do: func(ctx context.Context, s storage.Store, key string, _ storage.Version) (storage.Version, error) {
		return "", s.Delete(ctx, key)
	}}
}

// callGet returns a call of Get for a range, whose body is read to the end.
func callGet(name string, before *faultState, offset, length int64) call {
	return call{name: name, before: before, read: true, do: func(ctx context.Context, s storage.Store, key string, at storage.Version) (storage.Version, error) {
		got, err := s.Get(ctx, key, offset, length)
		if err != nil {
			return "", err
		}
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return "", err
		}
		want := before.body[min(offset, int64(len(before.body))):]
		if length >= 0 {
			want = want[:min(length, int64(len(want)))]
		}
		if !bytes.Equal(body, want) {
			return "", wrongReadError{fmt.Sprintf("body is %.80q (%d bytes), want %.80q (%d bytes)", body, len(body), want, len(want))}
		}
		return got.Version, checkInfo(got.Info, before, key, at)
	}}
}

// callRange returns a call of Get for a range of an object that is too large to be read whole.
func callRange(name string, before *faultState, offset, length int64) call {
	c := callGet(name, before, offset, length)
	c.unverified = true
	return c
}

func callStat(name string, before *faultState) call {
	return call{name: name, before: before, read: true, do: func(ctx context.Context, s storage.Store, key string, at storage.Version) (storage.Version, error) {
		info, err := s.Stat(ctx, key)
		if err != nil {
			return "", err
		}
		return info.Version, checkInfo(info, before, key, at)
	}}
}

func callMissing(name string, do func(context.Context, storage.Store, string) error) call {
	return call{
		name: name, read: true, want: storage.ErrNotFound,
		do: func(ctx context.Context, s storage.Store, key string, _ storage.Version) (storage.Version, error) {
			return "", do(ctx, s, key)
		},
	}
}

func callList() call {
	return call{
		name: "list", read: true, below: []string{"/a", "/b", "/c/d", "/e"},
		do: func(ctx context.Context, s storage.Store, key string, _ storage.Version) (storage.Version, error) {
			var got []string
			for entry, err := range s.List(ctx, key+"/", key+"/a") {
				if err != nil {
					return "", err
				}
				got = append(got, entry.Key)
			}
			if diff := cmp.Diff([]string{key + "/b", key + "/c/d", key + "/e"}, got); diff != "" {
				return "", wrongReadError{"(-want +got):\n" + diff}
			}
			return "", nil
		},
	}
}

// A wrongReadError describes a wrong result of a read, which no fault may cause.
type wrongReadError struct{ what string }

func (w wrongReadError) Error() string { return w.what }

func isWrong(err error) bool { return errors.As(err, new(wrongReadError)) }

func checkInfo(info storage.Info, o *faultState, key string, at storage.Version) error {
	if info.Key != key || info.Version != at || info.Size != int64(len(o.body)) || info.Modified.IsZero() || !sameMeta(info.Meta, o.meta) {
		return wrongReadError{fmt.Sprintf("%+v, want %v at %s", info, o, at)}
	}
	return nil
}
