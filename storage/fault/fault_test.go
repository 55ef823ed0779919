package fault_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestPass(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Store {
		return fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return fault.Pass })
	}, storagetest.Options{BodiesInMemory: true, Properties: storage.Properties{Watches: true, Clock: true, Names: true}})
}

// operations lists, for each verb, a function that performs the operation, and the body of the
// object afterwards.
var operations = []struct {
	verb  fault.Verb
	do    func(ctx context.Context, s storage.Store, at storage.Version) error
	after string // "" if there is no object
}{
	{fault.Create, func(ctx context.Context, s storage.Store, _ storage.Version) error {
		_, err := s.Create(ctx, "new", storage.Meta{Data: []byte("m")}, storage.Bytes([]byte("body")))
		return err
	}, "body"},
	{fault.Append, func(ctx context.Context, s storage.Store, at storage.Version) error {
		_, err := s.Append(ctx, "key", at, storage.Meta{}, storage.Bytes([]byte("+")))
		return err
	}, "old+"},
	{fault.Replace, func(ctx context.Context, s storage.Store, at storage.Version) error {
		_, err := s.Replace(ctx, "key", at, storage.Meta{}, storage.Bytes([]byte("other")))
		return err
	}, "other"},
	{fault.Delete, func(ctx context.Context, s storage.Store, _ storage.Version) error {
		return s.Delete(ctx, "key")
	}, ""},
	{fault.Get, func(ctx context.Context, s storage.Store, _ storage.Version) error {
		o, err := s.Get(ctx, "key", 0, -1)
		if err == nil {
			return o.Body.Close()
		}
		return err
	}, "old"},
	{fault.Stat, func(ctx context.Context, s storage.Store, _ storage.Version) error {
		_, err := s.Stat(ctx, "key")
		return err
	}, "old"},
	{fault.List, func(ctx context.Context, s storage.Store, _ storage.Version) error {
		for _, err := range s.List(ctx, "key", "") {
			return err
		}
		return errors.New("the listing is empty")
	}, "old"},
}

func key(verb fault.Verb) string {
	if verb == fault.Create {
		return "new"
	}
	return "key"
}

func prepare(t *testing.T) (*memory.Store, storage.Version) {
	t.Helper()
	s := memory.New()
	version, err := s.Create(t.Context(), "key", storage.Meta{}, storage.Bytes([]byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	return s, version
}

// content returns the body of an object, or "" if the object does not exist.
func content(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	o, err := s.Get(t.Context(), key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestOutcomes tests every outcome of every operation.
func TestOutcomes(t *testing.T) {
	for _, op := range operations {
		before := "old"
		if op.verb == fault.Create {
			before = ""
		}
		for _, outcome := range []fault.Outcome{fault.Pass, fault.Lost, fault.Landed} {
			s, version := prepare(t)
			var asked []fault.Op
			f := fault.Wrap(s, func(op fault.Op) fault.Outcome {
				asked = append(asked, op)
				return outcome
			})
			err := op.do(t.Context(), f, version)
			if outcome == fault.Pass && err != nil || outcome != fault.Pass && !errors.Is(err, fault.ErrInjected) {
				t.Errorf("%s, %v: error is %v", op.verb, outcome, err)
			}
			want := op.after
			if outcome == fault.Lost {
				want = before
			}
			if got := content(t, s, key(op.verb)); got != want {
				t.Errorf("%s, %v: the object is %q, want %q", op.verb, outcome, got, want)
			}
			if diff := cmp.Diff([]fault.Op{{Verb: op.verb, Key: key(op.verb), N: 1}}, asked); diff != "" {
				t.Errorf("%s, %v: asked (-want +got):\n%s", op.verb, outcome, diff)
			}
		}
	}
}

// TestLanded: Landed hides the store's own error from the caller.
func TestLanded(t *testing.T) {
	s, _ := prepare(t)
	f := fault.Wrap(s, func(fault.Op) fault.Outcome { return fault.Landed })
	_, err := f.Create(t.Context(), "key", storage.Meta{}, storage.Bytes())
	if !errors.Is(err, fault.ErrInjected) || errors.Is(err, storage.ErrExists) {
		t.Errorf("error is %v", err)
	}
}

// TestLate: a late write takes effect when it is released, with the bytes that the caller passed,
// even if the caller's context has been cancelled.
func TestLate(t *testing.T) {
	for _, op := range operations {
		if !op.verb.Writes() {
			continue
		}
		s, version := prepare(t)
		late := new(fault.Late)
		f := fault.Wrap(s, func(fault.Op) fault.Outcome { return late })
		ctx, cancel := context.WithCancel(t.Context())
		if err := op.do(ctx, f, version); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%s: error is %v", op.verb, err)
		}
		cancel()
		if got := content(t, s, key(op.verb)); got == op.after {
			t.Errorf("%s landed before it was released", op.verb)
		}
		if got := late.Op().Verb; got != op.verb {
			t.Errorf("%s: the handle is for %s", op.verb, got)
		}
		for range 2 {
			if err := late.Release(t.Context()); err != nil {
				t.Errorf("%s: Release: %v", op.verb, err)
			}
			if got := content(t, s, key(op.verb)); got != op.after {
				t.Errorf("%s: the object is %q, want %q", op.verb, got, op.after)
			}
		}
	}
	s, version := prepare(t)
	late := new(fault.Late)
	f := fault.Wrap(s, func(op fault.Op) fault.Outcome {
		if op.N == 1 {
			return late
		}
		return fault.Pass
	})
	body, data := []byte("+"), []byte("m")
	if _, err := f.Append(t.Context(), "key", version, storage.Meta{Data: data}, storage.Bytes(body)); err == nil {
		t.Error("no error")
	}
	body[0], data[0] = 'X', 'X'
	if err := late.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, s, "key"); got != "old+" {
		t.Errorf("the object is %q: the caller's bytes were not copied", got)
	}
	if info, err := s.Stat(t.Context(), "key"); err != nil || string(info.Meta.Data) != "m" {
		t.Errorf("metadata is %q, %v", info.Meta.Data, err)
	}

	// A late write fails if another write took effect before it was released.
	s, version = prepare(t)
	late = new(fault.Late)
	if _, err := f.Append(t.Context(), "key", version, storage.Meta{}, storage.Bytes()); err == nil {
		t.Error("no error at an old version")
	}
	g := fault.Wrap(s, func(op fault.Op) fault.Outcome {
		if op.N == 1 {
			return late
		}
		return fault.Pass
	})
	g.Append(t.Context(), "key", version, storage.Meta{}, storage.Bytes([]byte("late")))
	if _, err := g.Append(t.Context(), "key", version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	if err := late.Release(t.Context()); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("Release of a write that is too late: %v", err)
	}
}

// TestNumbers: operations of all kinds, including concurrent ones, are numbered in one sequence.
func TestNumbers(t *testing.T) {
	s, version := prepare(t)
	var sum atomic.Int64
	f := fault.Wrap(s, func(op fault.Op) fault.Outcome {
		sum.Add(int64(op.N))
		return fault.Lost
	})
	done := make(chan error)
	for _, op := range operations {
		go func() { done <- op.do(t.Context(), f, version) }()
	}
	for range operations {
		if err := <-done; !errors.Is(err, fault.ErrInjected) {
			t.Error(err)
		}
	}
	n := int64(len(operations))
	if sum.Load() != n*(n+1)/2 {
		t.Errorf("the numbers of %d operations add up to %d", n, sum.Load())
	}
}

func TestLateRead(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a late read did not panic")
		}
	}()
	f := fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return new(fault.Late) })
	f.Stat(t.Context(), "key")
}
