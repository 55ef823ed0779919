package kinds

import (
	"context"
	"io"
	"net/http"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// An activeTransport calls note for each response, except server errors, and whenever data is read from
// a body.
type activeTransport struct {
	http.RoundTripper
	note func()
}

// RoundTrip implements [http.RoundTripper].
func (t *activeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || isServerError(response.StatusCode) {
		return response, err
	}
	t.note()
	response.Body = &activeBody{response.Body, t.note}
	return response, nil
}

// An activeStore calls note whenever an operation succeeds, and whenever data is read from the body of
// an object.
type activeStore struct {
	storage.Store
	note func()
}

func newActiveStore(store storage.Store, note func()) *activeStore {
	return &activeStore{note: note, Store: observe.Wrap(store, func(_ context.Context, o observe.Operation) {
		if !o.Failed() {
			note()
		}
	})}
}

// Unwrap returns the wrapped store.
func (s *activeStore) Unwrap() storage.Store { return s.Store }

// Get implements [storage.Store].
func (s *activeStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	if _, file := object.Body.(interface{ Rewind() error }); !file { // files are never slow, and callers need all their methods
		object.Body = &activeBody{object.Body, s.note}
	}
	return object, nil
}

// An activeBody calls note whenever data is read.
type activeBody struct {
	io.ReadCloser
	note func()
}

// Read implements [io.Reader].
func (b *activeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.note()
	}
	return n, err
}
