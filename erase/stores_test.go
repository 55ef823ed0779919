package erase_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/stores"
)

// TestStores erases entities in a bucket and in PostgreSQL, including one that is too large to be kept in
// memory.
func TestStores(t *testing.T) {
	server := s3test.Start(t)
	for name, url := range map[string]string{"s3": server.URL("erase"), "postgres": pgtest.Start(t).URL("a")} {
		t.Run(name, func(t *testing.T) {
			store, err := stores.Open(t.Context(), url, stores.Options{Create: true})
			check(t, err)
			defer store.Close()
			check(t, publish(t.Context(), store, history(rand.New(rand.NewPCG(4, 4)), 12)...))
			large := entity(12, ann, feed.Put)
			body := append(bytes.Repeat([]byte("large "), 1<<19), large.Body...)
			large.Body, large.Stream, large.Size = nil, bytes.NewReader(body), int64(len(body))
			f, err := producer.Open(t.Context(), store, testFeed, producer.Config{})
			check(t, err)
			_, err = f.Publish(t.Context(), large)
			check(t, err)
			other := entity(13, "bob", feed.Put)
			other.Body, other.Stream, other.Size = nil, bytes.NewReader(body[:len(body)-100]), int64(len(body)-100)
			_, err = f.Publish(t.Context(), other)
			check(t, err)
			check(t, f.Close())
			testErase(t, store)
		})
	}
	if server.Dir != "" { // the server keeps the bucket of this test in files
		if got := filesWith(t, server.Dir, secret); got != nil {
			t.Errorf("the secret is left in %v", got)
		}
	}
}
