package outbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A slowStore is a store whose Stat waits until it is released.
type slowStore struct {
	storage.Store
	answer chan struct{}
}

func (s slowStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	<-s.answer
	return s.Store.Stat(ctx, key)
}

// Requests that a producer makes after it has acknowledged a batch do not interfere with the end of
// the transaction, and wait for the next transaction.
func TestTransactionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := slowStore{memory.New(), make(chan struct{})}, slowStore{memory.New(), make(chan struct{})}
		s := newTxStore()
		look := func() (done chan error) {
			done = make(chan error, 1)
			go func() {
				_, err := s.Stat(t.Context(), "key")
				done <- err
			}()
			synctest.Wait()
			return done
		}
		ended := func(done chan error) bool {
			synctest.Wait()
			return len(done) == 1
		}
		s.open(first)
		under := look()
		shut := make(chan error, 1)
		go func() { shut <- s.shut() }()
		if ended(shut) {
			t.Error("the transaction ended while it was in use")
		}
		late := look()
		first.answer <- struct{}{}
		if !ended(under) || !ended(shut) || <-shut != nil {
			t.Error("the transaction did not end")
		}
		if ended(late) {
			t.Error("a late request does not wait for the next transaction")
		}
		s.open(second)
		second.answer <- struct{}{}
		if !ended(late) {
			t.Error("a waiting request does not continue in the next transaction")
		}
		if err := s.shut(); err != nil {
			t.Error(err)
		}
		late = look()
		broken := errors.New("broken")
		s.fail(broken)
		if !ended(late) || !errors.Is(<-late, broken) {
			t.Error("a waiting request does not end with the store")
		}
	})
}

// A transaction does not end while a body is open.
func TestOpenBodyKeepsTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		if _, err := store.Create(t.Context(), "key", storage.Meta{}, storage.Bytes([]byte("body"))); err != nil {
			t.Fatal(err)
		}
		s := newTxStore()
		s.open(store)
		o, err := s.Get(t.Context(), "key", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		shut := make(chan error, 1)
		go func() { shut <- s.shut() }()
		if synctest.Wait(); len(shut) > 0 {
			t.Error("the transaction ended while a body was open")
		}
		if err := o.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); len(shut) == 0 {
			t.Error("the transaction did not end")
		}
	})
}
