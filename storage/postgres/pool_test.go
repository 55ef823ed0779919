package postgres_test

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
)

// TestPool: stores share the caller's pool and do not close it.
func TestPool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Start(t).URL("pool"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := postgres.New(t.Context(), pool, postgres.Options{Schema: "s", ReadOnly: true}); !errors.Is(err, storage.ErrNoStore) {
		t.Fatalf("New without a schema: %v", err)
	}
	for _, o := range []postgres.Options{{Schema: "s"}, {Schema: "s", ReadOnly: true}} {
		s, err := postgres.New(t.Context(), pool, o)
		if err != nil {
			t.Fatal(err)
		}
		if !o.ReadOnly {
			if _, err := s.Create(t.Context(), "a/b", storage.Meta{}, storage.Bytes([]byte("one"))); err != nil {
				t.Fatal(err)
			}
		}
		object, err := s.Get(t.Context(), "a/b", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(object.Body); err != nil || string(text) != "one" {
			t.Errorf("the object is %q, %v", text, err)
		}
		object.Body.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool was closed: %v", err)
	}
}
