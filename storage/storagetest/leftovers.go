package storagetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

// testLeftovers checks that the leftovers of killed writers are invisible and do no harm, whether
// their object exists or not.
func testLeftovers(t *testing.T, s *suite) {
	ctx := t.Context()
	key, none := s.key("dir/there"), s.key("dir/not-there")
	version := s.create(t, key, claimOf("x", 1, []byte("body")), "body")
	leave := func() {
		s.opts.Leftovers(t, s.store, key)
		s.opts.Leftovers(t, s.store, none)
	}
	was := take(t, s.store, key)
	leave()
	unchanged(t, s.store, key, was)
	unchanged(t, s.store, none, nil)
	if diff := cmp.Diff([]string{key}, s.list(t, s.prefix, "")); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	_, err := s.store.Append(ctx, none, version, storage.Meta{}, storage.Bytes())
	wantError(t, "Append to a missing object", err, storage.ErrConflict)

	if version, err = s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("body+"))
	leave()
	if version, err = s.store.Replace(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("new"))
	leave()
	created := s.create(t, none, storage.Meta{}, "created")
	is(t, s.store, none, created, storage.Meta{}, []byte("created"))

	if s.opts.Properties.Sweeps {
		leave()
		testSweep(t, s, version, created)
	}
	for _, key := range []string{key, none} {
		if err := s.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	if got := s.list(t, "", ""); len(got) > 0 {
		t.Errorf("List after all objects were deleted: %q", got)
	}
	s.create(t, key, storage.Meta{}, "again")
}

// everything is an age with which Sweep removes all leftovers: a store's clock may lag a few
// seconds behind the clock that sets the times of leftovers.
const everything = -time.Minute

// testSweep checks that Sweep removes leftovers that are old enough, and nothing else.
func testSweep(t *testing.T, s *suite, version, created storage.Version) {
	sweeper := optional[storage.Sweeper](t, s)
	if freed, err := sweeper.Sweep(t.Context(), 1e18); freed != 0 || err != nil {
		t.Errorf("Sweep of old leftovers: freed %d bytes, error %v", freed, err)
	}
	if freed, err := sweeper.Sweep(t.Context(), everything); freed == 0 || err != nil {
		t.Errorf("Sweep of all leftovers: freed %d bytes, error %v", freed, err)
	}
	if freed, err := sweeper.Sweep(t.Context(), everything); freed != 0 || err != nil {
		t.Errorf("Sweep again: freed %d bytes, error %v", freed, err)
	}
	is(t, s.store, s.key("dir/there"), version, storage.Meta{}, []byte("new"))
	is(t, s.store, s.key("dir/not-there"), created, storage.Meta{}, []byte("created"))
}

// testSweepWhileWriting sweeps leftovers of any age while writers are active. Nothing that they
// write may be lost.
func testSweepWhileWriting(t *testing.T, s *suite) {
	sweeper := optional[storage.Sweeper](t, s)
	var writers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range 25 {
				if err := writeAll(t, s, s.key(fmt.Sprintf("w%d/%d", w, i%2))); err != nil {
					t.Errorf("writer %d, round %d: %v", w, i, err)
					return
				}
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	for {
		if _, err := sweeper.Sweep(t.Context(), everything); err != nil {
			t.Errorf("Sweep: %v", err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// writeAll calls every method that writes an object, from Create to Delete.
func writeAll(t *testing.T, s *suite, key string) error {
	ctx := t.Context()
	version, err := s.store.Create(ctx, key, claimOf("x", 1, []byte("one")), storage.Bytes([]byte("one")))
	if err != nil {
		return err
	}
	version, err = s.store.Append(ctx, key, version, claimOf("x", 2, []byte("onetwo")), storage.Bytes([]byte("two")))
	if err != nil {
		return err
	}
	if _, c, err := whole(ctx, s.store, key); err != nil || c.N != 2 {
		return fmt.Errorf("after Append: state %d, %w", c.N, err)
	}
	if _, err = s.store.Replace(ctx, key, version, claimOf("x", 3, []byte("3")), storage.Bytes([]byte("3"))); err != nil {
		return err
	}
	if _, c, err := whole(ctx, s.store, key); err != nil || c.N != 3 {
		return fmt.Errorf("after Replace: state %d, %w", c.N, err)
	}
	if err := s.store.Delete(ctx, key); err != nil {
		return err
	}
	if _, err := s.store.Stat(ctx, key); !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("after Delete: %w", err)
	}
	return nil
}
