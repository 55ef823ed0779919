package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleNew() {
	_, err := memory.New().Stat(context.Background(), "feeds/zones/pages/000000000001")
	fmt.Println(errors.Is(err, storage.ErrNotFound))
	// Output: true
}
