package pagecache_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// This example creates a server that keeps up to 1 GiB of pages on disk.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cache, err := pagecache.Open(pagecache.Config{Dir: dir, Size: 1 << 30})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	handler, err := server.New(memory.New(), server.Config{Cache: cache}) // the cache is useful for a remote store
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close(context.Background())
	fmt.Println(cache.Stats().Bytes, "bytes are cached")
	// Output: 0 bytes are cached
}
