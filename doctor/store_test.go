package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A sick store has one fault. Operations whose functions are nil work normally.
type sick struct {
	storage.Store
	stat    func(storage.Info, error) (storage.Info, error)
	create  func(context.Context, string, storage.Meta, storage.Body) (storage.Version, error)
	append  func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error)
	replace func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error)
	body    func([]byte) []byte
	list    error
	hides   string // from listings
	delete  func() error
	now     func() (time.Time, error)
	probe   func() ([]storage.Check, error)
}

func (s *sick) Stat(ctx context.Context, key string) (storage.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	if s.stat != nil {
		return s.stat(info, err)
	}
	return info, err
}

func (s *sick) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if s.create != nil {
		return s.create(ctx, key, meta, body)
	}
	return s.Store.Create(ctx, key, meta, body)
}

func (s *sick) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	if s.append != nil {
		return s.append(ctx, key, at, meta, tail)
	}
	return s.Store.Append(ctx, key, at, meta, tail)
}

func (s *sick) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if s.replace != nil {
		return s.replace(ctx, key, at, meta, body)
	}
	return s.Store.Replace(ctx, key, at, meta, body)
}

func (s *sick) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || s.body == nil {
		return o, err
	}
	data, err := io.ReadAll(o.Body)
	o.Body = io.NopCloser(bytes.NewReader(s.body(data)))
	return o, err
}

func (s *sick) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if s.list != nil {
			yield(storage.Entry{}, s.list)
			return
		}
		if s.hides == prefix[:min(len(prefix), len(s.hides))] && s.hides != "" {
			return
		}
		s.Store.List(ctx, prefix, after)(yield)
	}
}

func (s *sick) Delete(ctx context.Context, key string) error {
	if s.delete != nil {
		return s.delete()
	}
	return s.Store.Delete(ctx, key)
}

func (s *sick) Now(context.Context) (time.Time, error) {
	if s.now != nil {
		return s.now()
	}
	return time.Now(), nil
}

func (s *sick) Probe(context.Context) ([]storage.Check, error) {
	if s.probe != nil {
		return s.probe()
	}
	return []storage.Check{{Name: "it keeps its promises", OK: true}}, nil
}

func denied(verb string) error { return fmt.Errorf("%s: %w", verb, storage.ErrPermission) }

// TestFaultyStores: each fault is reported by its own check only.
func TestFaultyStores(t *testing.T) {
	broken := errors.New("connection refused")
	for name, test := range map[string]struct {
		make func(*sick)
		want map[string]doctor.Level
	}{
		"none": {func(*sick) {}, nil},
		"cannot be reached": {func(s *sick) {
			s.stat = func(storage.Info, error) (storage.Info, error) { return storage.Info{}, broken }
			s.list = broken
		}, only("read", doctor.Problem)},
		"reading is denied": {func(s *sick) {
			s.stat = func(storage.Info, error) (storage.Info, error) { return storage.Info{}, denied("stat") }
		}, only("read", doctor.Problem)},
		"listing fails":     {func(s *sick) { s.list = broken }, map[string]doctor.Level{"list": doctor.Problem, "list after write": doctor.Problem}},
		"listing is denied": {func(s *sick) { s.list = denied("list") }, only("list", doctor.Warning)},
		"clock is behind":   {func(s *sick) { s.now = func() (time.Time, error) { return time.Now().Add(-time.Hour), nil } }, only("clock", doctor.Problem)},
		"writing is denied": {func(s *sick) {
			s.create = func(context.Context, string, storage.Meta, storage.Body) (storage.Version, error) {
				return "", denied("create")
			}
			s.probe = func() ([]storage.Check, error) { return nil, denied("probe") }
		}, only("write", doctor.Warning)},
		"writing is unsafe": {func(s *sick) {
			s.create = func(context.Context, string, storage.Meta, storage.Body) (storage.Version, error) {
				return "", storage.ErrUnsafe
			}
			s.probe = func() ([]storage.Check, error) {
				return []storage.Check{{Name: "If-Match is honoured", Detail: "update the server"}}, nil
			}
		}, map[string]doctor.Level{"write": doctor.Problem, "server": doctor.Problem}},
		"create overwrites": {func(s *sick) {
			s.create = func(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
				s.create = func(context.Context, string, storage.Meta, storage.Body) (storage.Version, error) { return "x", nil }
				return s.Store.Create(ctx, key, meta, body)
			}
		}, only("conditions", doctor.Problem)},
		"append takes any version": {func(s *sick) {
			s.append = func(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
				s.append = func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error) {
					return "x", nil
				}
				return s.Store.Append(ctx, key, at, meta, tail)
			}
		}, only("conditions", doctor.Problem)},
		"replace takes any version": {func(s *sick) {
			s.replace = func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error) {
				return "x", nil
			}
		}, only("conditions", doctor.Problem)},
		"bytes are changed":     {func(s *sick) { s.body = bytes.ToUpper }, only("range", doctor.Problem)},
		"range is ignored":      {func(s *sick) { s.body = func(b []byte) []byte { return append(b, b...) } }, only("range", doctor.Problem)},
		"lists are stale":       {func(s *sick) { s.hides = "doctor/" }, only("list after write", doctor.Problem)},
		"deleting is denied":    {func(s *sick) { s.delete = func() error { return denied("delete") } }, only("delete", doctor.Warning)},
		"deleting does nothing": {func(s *sick) { s.delete = func() error { return nil } }, only("delete", doctor.Problem)},
		"promises are not kept": {func(s *sick) {
			s.probe = func() ([]storage.Check, error) { return []storage.Check{{Name: "If-Match", Detail: "no"}}, nil }
		}, only("server", doctor.Problem)},
		"promises are not known": {func(s *sick) { s.probe = func() ([]storage.Check, error) { return nil, broken } }, only("server", doctor.Problem)},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			s := &sick{Store: store}
			test.make(s)
			findings, err := doctor.Store(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]doctor.Level)
			for _, f := range findings {
				if f.Level == doctor.Warning || f.Level == doctor.Problem {
					got[f.Check] = f.Level
					if f.Found == "" || f.Why == "" || f.Fix == "" {
						t.Errorf("incomplete finding: %+v", f)
					}
				} else if test.want == nil && f.Level != doctor.OK {
					t.Errorf("not tried: %+v", f)
				}
			}
			if diff := cmp.Diff(test.want, got, cmpEmpty); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, findings)
			}
			if s.delete != nil {
				return
			}
			for entry, err := range store.List(t.Context(), "", "") {
				t.Errorf("left behind: %v, %v", entry.Key, err)
			}
		})
	}
}

func TestInterruptedStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := memory.New()
	s := &sick{Store: store}
	s.replace = func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error) {
		cancel()
		return "", ctx.Err()
	}
	if _, err := doctor.Store(ctx, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for entry, err := range store.List(t.Context(), "", "") {
		t.Errorf("left behind: %v, %v", entry.Key, err)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, f := range doctor.Directory(t.Context(), dir) {
		if f.Level == doctor.Problem || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, f := range doctor.Directory(t.Context(), dir+"/none") {
		if f.Level == doctor.OK {
			t.Errorf("%+v", f)
		}
	}
}

// TestSpace asks for the space of a directory that exists, and of one that does not.
func TestSpace(t *testing.T) {
	t.Parallel()
	free, all, err := doctor.Space(t.TempDir())
	if runtime.GOOS != "linux" {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("error is %v", err)
		}
		return
	}
	if err != nil || free < 0 || all < 1<<20 || free > all {
		t.Errorf("%d of %d bytes are free: %v", free, all, err)
	}
	if _, _, err := doctor.Space(t.TempDir() + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
