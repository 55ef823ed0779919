package storage_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// Of two writers that have read the same version of an object, only one can write the next version.
func Example() {
	var store storage.Store = memory.New()
	ctx, meta := context.Background(), storage.Meta{ContentType: "text/plain"}
	version, err := store.Create(ctx, "greeting", meta, storage.Bytes([]byte("hello")))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Append(ctx, "greeting", version, meta, storage.Bytes([]byte(", world"))); err != nil {
		log.Fatal(err)
	}
	_, err = store.Append(ctx, "greeting", version, meta, storage.Bytes([]byte(", moon")))
	fmt.Println(errors.Is(err, storage.ErrConflict))

	info, err := store.Stat(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Size)
	// Output:
	// true
	// 12
}
