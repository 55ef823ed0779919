package s3_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/storage"
)

// TestOvertaken: a write succeeds, its response is lost, and another client writes before
// the driver reads the object. The driver must not conclude that its write failed.
func TestOvertaken(t *testing.T) {
	bed := newFaultBed(t)
	ctx := t.Context()
	lost := map[string]s3fault.Fault{
		"timeout": s3fault.Fail(s3fault.ErrTimeout()),
		"409":     s3fault.Answer(http.StatusConflict, "ConditionalRequestConflict"),
		"500":     s3fault.Answer(http.StatusInternalServerError, "InternalError"),
	}
	overtaking := &faultState{storage.Meta{Data: []byte("of another")}, []byte("of another")}
	overtake := map[string]func(key string) error{
		"replace": func(key string) error {
			info, err := bed.clean.Stat(ctx, key)
			if err != nil {
				return err
			}
			_, err = bed.clean.Replace(ctx, key, info.Version, overtaking.meta, storage.Bytes(overtaking.body))
			return err
		},
		"delete": func(key string) error { return bed.clean.Delete(ctx, key) },
		"create again": func(key string) error {
			if err := bed.clean.Delete(ctx, key); err != nil {
				return err
			}
			_, err := bed.clean.Create(ctx, key, overtaking.meta, storage.Bytes(overtaking.body))
			return err
		},
	}
	for _, c := range calls() {
		if c.read || c.large || c.want != nil || c.after == nil || testing.Short() && c.redundant() {
			continue
		}
		for how, fault := range lost {
			for who, write := range overtake {
				key := bed.key()
				at, err := c.prepare(ctx, bed, key)
				if err != nil {
					t.Fatal(err)
				}
				overtaken := false
				store := bed.open(t, func(r s3fault.Request) s3fault.Fault {
					if r.Operation != s3fault.PutObject || !hasKey(r.Path, key) || overtaken {
						return nil
					}
					overtaken = true
					return s3fault.Landed(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
						if err := write(key); err != nil {
							t.Errorf("%s: %v", who, err)
						}
						return fault(next, r)
					})
				})
				_, err = c.do(ctx, store, key, at)
				is, _, lerr := look(ctx, bed.clean, key)
				switch {
				case lerr != nil:
					t.Errorf("%s, %s, %s: %v", c.name, how, who, lerr)
				case isDefinite(err):
					t.Errorf("%s, %s, then %s by another: the write took effect, but the error denies it: %v", c.name, how, who, err)
				case who != "delete" && !same(is, overtaking):
					t.Errorf("%s, %s: the %s of another was overwritten by %v (%v)", c.name, how, who, is, err)
				}
			}
		}
	}
}

func hasKey(path, key string) bool {
	return len(path) > len(key) && path[len(path)-len(key)-1:] == "/"+key
}

// TestMixedStates: reads must return the current state even if a response has the headers of the
// previous one.
func TestMixedStates(t *testing.T) {
	bed := newFaultBed(t)
	ctx := t.Context()
	long := noise(1, 5000)
	for _, test := range []struct{ old, now *faultState }{
		{&faultState{storage.Meta{Data: []byte("1")}, []byte("one")}, &faultState{storage.Meta{Data: []byte("2")}, []byte("two")}},
		{&faultState{storage.Meta{Data: []byte("1")}, []byte("short")}, &faultState{storage.Meta{Data: []byte("2")}, []byte("rather long")}},
		{&faultState{storage.Meta{Data: []byte("1")}, []byte("rather long")}, &faultState{storage.Meta{Data: []byte("2")}, []byte("short")}},
		{&faultState{storage.Meta{Data: long}, []byte("one")}, &faultState{storage.Meta{Data: []byte("2")}, []byte("two")}},
		{&faultState{storage.Meta{Data: []byte("1")}, []byte("one")}, &faultState{storage.Meta{Data: long}, []byte("two")}},
		{&faultState{storage.Meta{Data: []byte("1")}, []byte("same")}, &faultState{storage.Meta{Data: []byte("2")}, []byte("same")}},
	} {
		key := bed.key()
		version, err := bed.clean.Create(ctx, key, test.old.meta, storage.Bytes(test.old.body))
		if err != nil {
			t.Fatal(err)
		}
		header := headerOf(t, bed, key)
		if _, err := bed.clean.Replace(ctx, key, version, test.now.meta, storage.Bytes(test.now.body)); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 3; n++ {
			store := bed.open(t, nth(n, s3fault.Headers(header)))
			got, err := store.Get(ctx, key, 0, -1)
			if err != nil {
				t.Errorf("request %d mixes states: %v", n, err)
				continue
			}
			body, err := io.ReadAll(got.Body)
			got.Body.Close()
			if is := (&faultState{got.Meta, body}); err != nil || !same(is, test.now) {
				t.Errorf("request %d mixes states: read %v, want %v; %v", n, is, test.now, err)
			}
		}
	}
}

// headerOf returns the header of the response to the request that Get sends.
func headerOf(t *testing.T, bed *faultBed, key string) (header http.Header) {
	t.Helper()
	store := bed.open(t, func(r s3fault.Request) s3fault.Fault {
		return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				header = response.Header.Clone()
			}
			return response, err
		}
	})
	if _, _, err := look(t.Context(), store, key); err != nil {
		t.Fatal(err)
	}
	return header
}

// TestResumed breaks the connection of a read, and another client replaces the object
// before the read continues. The read must return bytes of one state, or an error.
func TestResumed(t *testing.T) {
	bed := newFaultBed(t)
	ctx := t.Context()
	old := &faultState{storage.Meta{Data: []byte("1")}, noise(1, 3*faultMemory)}
	now := &faultState{storage.Meta{Data: []byte("2")}, noise(2, 3*faultMemory)}
	for _, r := range []struct{ offset, length int64 }{{0, -1}, {10, 2 << 20}, {1 << 20, -1}, {100, 5000}} {
		for _, at := range []int64{1, 1000, 1 << 20} {
			for name, broken := range map[string]s3fault.Fault{"reset": s3fault.ResetResponse(at), "cut": s3fault.Truncate(at), "short": s3fault.Shorten(at)} {
				key := bed.key()
				version, err := bed.clean.Create(ctx, key, old.meta, storage.Bytes(old.body))
				if err != nil {
					t.Fatal(err)
				}
				store := bed.open(t, overtakenRead(ctx, bed, key, version, broken, now))
				if err := readOneOf(ctx, store, key, r.offset, r.length, old, now); err != nil {
					t.Errorf("range %v, %s at %d: %v", r, name, at, err)
				}
			}
		}
	}
}

// overtakenRead breaks the first read of a body and replaces the object before the next
// request.
func overtakenRead(ctx context.Context, bed *faultBed, key string, at storage.Version, broken s3fault.Fault, now *faultState) func(s3fault.Request) s3fault.Fault {
	n := 0
	return func(r s3fault.Request) s3fault.Fault {
		if !hasKey(r.Path, key) || r.Operation != s3fault.GetObject {
			return nil
		}
		switch n++; n {
		case 1:
			return broken
		case 2:
			if _, err := bed.clean.Replace(ctx, key, at, now.meta, storage.Bytes(now.body)); err != nil {
				return s3fault.Fail(err)
			}
		}
		return nil
	}
}

// readOneOf reads a range and returns an error unless the read fails or returns one of the
// states, with its metadata.
func readOneOf(ctx context.Context, store storage.Store, key string, offset, length int64, states ...*faultState) error {
	got, err := store.Get(ctx, key, offset, length)
	if err != nil {
		return nil
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return nil
	}
	for _, state := range states {
		want := state.body[offset:]
		if length >= 0 {
			want = want[:length]
		}
		if string(want) == string(body) && sameMeta(got.Meta, state.meta) {
			return nil
		}
	}
	return fmt.Errorf("read %d bytes with %q, which is not one of the states", len(body), got.Meta.Data)
}

// TestListings: responses to listings are outdated, repeat objects or are out of order.
// List must yield existing objects once and in order, or return an error.
func TestListings(t *testing.T) {
	bed := newFaultBed(t)
	prefix := bed.key() + "/"
	var keys []string
	for i := range 7 {
		key := fmt.Sprintf("%s%d", prefix, i)
		keys = append(keys, key)
		if _, err := bed.clean.Create(t.Context(), key, storage.Meta{}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for name, edit := range map[string]func([]string) []string{
		"old":          func(c []string) []string { return c[:len(c)-2] },
		"very old":     func([]string) []string { return nil },
		"holes":        func(c []string) []string { return slices.Delete(c, 1, 3) },
		"repeats":      func(c []string) []string { return append(c, c[0]) },
		"twice":        func(c []string) []string { return append(c[:1:1], c...) },
		"out of order": func(c []string) []string { slices.Reverse(c); return c },
	} {
		store := bed.open(t, func(r s3fault.Request) s3fault.Fault {
			if r.Operation == s3fault.ListObjectsV2 {
				return s3fault.EditList(edit)
			}
			return nil
		})
		last := ""
		for entry, err := range store.List(t.Context(), prefix, "") {
			if err != nil {
				t.Logf("%s: %v", name, err)
				break
			}
			if entry.Key <= last || !slices.Contains(keys, entry.Key) {
				t.Errorf("%s: %q is listed after %q", name, entry.Key, last)
			}
			last = entry.Key
		}
	}
}
