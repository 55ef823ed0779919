package retention_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleChange() {
	ctx, store := context.Background(), memory.New()
	policy, err := retention.Change(ctx, store, "zones", func(p *retention.Policy) error {
		p.KeepAge, p.SnapshotEvery, p.KeepSnapshots = 30*24*time.Hour, 24*time.Hour, 3
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.KeepAge, policy.KeepSnapshots)
	// Output: 720h0m0s 3
}
