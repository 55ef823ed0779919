package digests_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	written, err := digests.Write(ctx, store, "zones", digests.Config{}, func(ctx context.Context, put *digests.Writer) (*digest.Root, error) {
		tree, err := digest.Build(ctx, func(yield func(digest.Entry, error) bool) {
			yield(digest.Entry{Key: "Bern", Sum: digest.SumOf("Bern", "text/plain", []byte("sunny"))}, nil)
		}, put)
		return &digest.Root{Feed: snapshot.FeedPosition{URL: "../../feeds/zones"}, Tree: tree}, err
	})
	if err != nil {
		log.Fatal(err)
	}

	root, err := digests.Read(ctx, store, "zones", written.ID)
	if err != nil {
		log.Fatal(err)
	}
	r := &digest.Reader{Root: root, Objects: digests.Objects(store, "zones")}
	for e, err := range r.In(ctx, digest.All) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Key, e.Sum)
	}
	// Output: Bern 4b9be2edcc19a7ef08d4f6f11f9fb4fb
}
