package task_test

import (
	"log/slog"
	"testing"

	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/storage"
)

// TestShared: runs have a store in common, until the last of them ends.
func TestShared(t *testing.T) {
	url := "file:" + t.TempDir() + "/store"
	var common task.Shared
	open := func(shared *task.Shared) (storage.Store, *task.Env) {
		t.Helper()
		e := &task.Env{Log: slog.New(slog.DiscardHandler), Shared: shared}
		store, err := e.OpenStore(t.Context(), url, task.Access{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return store, e
	}
	end := func(e *task.Env) {
		t.Helper()
		if err := e.Close(nil); err != nil {
			t.Error(err)
		}
	}
	a, first := open(&common)
	b, second := open(&common)
	alone, third := open(nil)
	if a != b || a == alone {
		t.Error("stores of two runs that share differ, or one that does not is the same")
	}
	end(third)
	end(first)
	if _, err := b.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(nil)); err != nil {
		t.Errorf("the store does not work after the first run: %v", err)
	}
	end(second)
	c, fourth := open(&common)
	if c == a {
		t.Error("the store was not closed at the end of the last run")
	}
	end(fourth)
}
