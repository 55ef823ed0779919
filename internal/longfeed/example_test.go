package longfeed_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx := context.Background()
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	store := longfeed.New(memory.New(), "zones", 1000, func(n int64) time.Time { return start.Add(time.Duration(n) * time.Hour) })
	reader := feedstore.NewLocal(store, nil)
	defer reader.Close(ctx)
	n, err := reader.PageBefore(ctx, "zones", start.AddDate(0, 0, 10))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 239
}
