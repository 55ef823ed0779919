package server_test

import (
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestServersAway stops the bucket, the S3 server and the database of running servers. Until
// these are back, the servers report within their own time limit that they are not ready.
func TestServersAway(t *testing.T) {
	bucket, database := s3test.StartOwn(t), pgtest.StartOwn(t)
	serve := func(open func() (storage.Store, error)) *site {
		store, err := open()
		check(t, err)
		t.Cleanup(func() { store.Close() })
		web, err := server.New(store, server.Config{Operations: true})
		check(t, err)
		return inside(t, web)
	}
	registry := storage.Registry{"s3": s3.Open, "postgres": postgres.Create}
	inBucket := serve(func() (storage.Store, error) { return registry.Open(t.Context(), bucket.URL("a")) })
	inDatabase := serve(func() (storage.Store, error) { return registry.Open(t.Context(), database.URL("a")) })
	want := func(state string, status int, paths map[*site][]string) {
		t.Helper()
		var wg sync.WaitGroup
		for at, all := range paths {
			for _, path := range all {
				wg.Go(func() {
					if got := at.get(t, path).StatusCode; got != status {
						t.Errorf("%s: %s answers %d, want %d", state, path, got, status)
					}
				})
			}
		}
		wg.Wait()
	}
	ready := map[*site][]string{inBucket: {"/readyz"}, inDatabase: {"/readyz"}}
	want("there", http.StatusOK, ready)
	check(t, os.Rename(bucket.Dir, bucket.Dir+"-aside"))
	want("no bucket", http.StatusServiceUnavailable, map[*site][]string{inBucket: {"/readyz", "/feeds/none"}})
	check(t, os.Rename(bucket.Dir+"-aside", bucket.Dir))
	bucket.Stop()
	database.Stop()
	want("away", http.StatusServiceUnavailable, map[*site][]string{inBucket: {"/readyz", "/feeds/none"}, inDatabase: {"/readyz", "/feeds/none"}})
	bucket.Start()
	database.Start()
	want("back", http.StatusOK, ready)
}
