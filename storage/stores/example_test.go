package stores_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	url := "file:" + dir + "/data" // or s3://bucket/prefix, or postgres://host/database
	_, err = stores.Open(ctx, url, stores.Options{})
	fmt.Println(errors.Is(err, storage.ErrNoStore))
	store, err := stores.Open(ctx, url, stores.Options{Create: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	version, err := store.Create(ctx, "a/b", storage.Meta{}, storage.Bytes([]byte("text")))
	fmt.Println(version != "", err)
	// Output:
	// true
	// true <nil>
}
