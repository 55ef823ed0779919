package observe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

func ExampleWrap() {
	store := observe.Wrap(memory.New(), func(_ context.Context, o observe.Operation) {
		fmt.Println(o.Name, o.Key, o.Err, o.Failed())
	})
	ctx := context.Background()
	if _, err := store.Create(ctx, "greeting", storage.Meta{}, storage.Bytes([]byte("hello"))); err != nil {
		log.Fatal(err)
	}
	_, _ = store.Stat(ctx, "answer")
	// Output:
	// create greeting <nil> false
	// stat answer stat answer: object not found false
}
