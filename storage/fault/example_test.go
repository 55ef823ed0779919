package fault_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// The response to the first write is lost: the object exists, but the writer does not know that it
// does.
func Example() {
	store := fault.Wrap(memory.New(), func(op fault.Op) fault.Outcome {
		if op.N == 1 {
			return fault.Landed
		}
		return fault.Pass
	})
	ctx := context.Background()
	_, err := store.Create(ctx, "greeting", storage.Meta{}, storage.Bytes([]byte("hello")))
	fmt.Println(errors.Is(err, fault.ErrInjected))
	object, err := store.Stat(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(object.Size, "bytes")
	// Output:
	// true
	// 5 bytes
}
