package observe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Store {
		return observe.Wrap(memory.New(), func(context.Context, observe.Operation) {})
	}, storagetest.Options{
		BodiesInMemory: true,
		Properties:     storage.Properties{Watches: true, Clock: true, Names: true},
	})
}

// operate performs operations of each kind. Some are refused, and one fails.
func operate(t *testing.T, s storage.Store) {
	ctx := t.Context()
	version, err := s.Create(ctx, "a/b", storage.Meta{}, storage.Bytes([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	s.Create(ctx, "a/b", storage.Meta{}, storage.Bytes())
	version, _ = s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes([]byte("y")))
	s.Replace(ctx, "a/b", version, storage.Meta{}, storage.Bytes([]byte("z")))
	s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes([]byte("y")))
	if o, err := s.Get(ctx, "a/b", 0, -1); err == nil {
		o.Body.Close()
	}
	s.Stat(ctx, "a/c")
	for range s.List(ctx, "a/", "") {
		break
	}
	for range s.List(ctx, "b/", "") {
	}
	s.Delete(ctx, "a/b")
	s.Stat(ctx, "lost")
}

// losing returns a store in which operations on the object "lost" fail without an effect.
func losing(store storage.Store) storage.Store {
	return fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Key == "lost" {
			return fault.Lost
		}
		return fault.Pass
	})
}

func TestOperations(t *testing.T) {
	type seen struct {
		name, key string
		err       error
		failed    bool
	}
	var got []seen
	operate(t, observe.Wrap(losing(memory.New()), func(_ context.Context, o observe.Operation) {
		if o.Took < 0 {
			t.Errorf("%s %s took %v", o.Name, o.Key, o.Took)
		}
		var kind error
		for _, err := range []error{storage.ErrExists, storage.ErrConflict, storage.ErrNotFound, fault.ErrInjected} {
			if errors.Is(o.Err, err) {
				kind = err
			}
		}
		got = append(got, seen{o.Name, o.Key, kind, o.Failed()})
	}))
	want := []seen{
		{"create", "a/b", nil, false}, {"create", "a/b", storage.ErrExists, false}, {"append", "a/b", nil, false},
		{"replace", "a/b", nil, false}, {"append", "a/b", storage.ErrConflict, false}, {"get", "a/b", nil, false},
		{"stat", "a/c", storage.ErrNotFound, false}, {"list", "a/", nil, false}, {"list", "b/", nil, false},
		{"delete", "a/b", nil, false}, {"stat", "lost", fault.ErrInjected, true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{}), cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	operate(t, observe.Log(losing(memory.New()), log))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 11 {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range map[int]string{0: `level=DEBUG msg="store operation" operation=create key=a/b took=`, 10: "error="} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %q lacks %q", lines[i], want)
		}
	}
}
