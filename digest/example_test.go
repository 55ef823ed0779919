package digest_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	"github.com/feedctl/feedctl/digest"
)

// objects holds the nodes and leaves of digests.
type objects map[digest.Hash]string

func (o objects) Put(_ context.Context, name digest.Hash, data []byte) error {
	o[name] = string(data)
	return nil
}

func (o objects) Get(_ context.Context, name digest.Hash) ([]byte, error) {
	return []byte(o[name]), nil
}

func entries(state ...string) iter.Seq2[digest.Entry, error] {
	return func(yield func(digest.Entry, error) bool) {
		for i := 0; i < len(state); i += 2 {
			key, body := state[i], state[i+1]
			if !yield(digest.Entry{Key: key, Sum: digest.SumOf(key, "text/plain", []byte(body))}, nil) {
				return
			}
		}
	}
}

func Example() {
	ctx, store := context.Background(), objects{}
	tree, err := digest.Build(ctx, entries("Bern", "sunny", "Troll", "snow"), store)
	if err != nil {
		log.Fatal(err)
	}
	published := &digest.Reader{Root: &digest.Root{Tree: tree}, Objects: store}

	// Compare a copy by a single hash, and then key by key.
	copied := digest.NewSummary("")
	mine := map[string]digest.Sum{}
	for e := range entries("Bern", "sunny", "Troll", "rain") {
		copied.Add(e.Key, e.Sum)
		mine[e.Key] = e.Sum
	}
	fmt.Println("equal:", digest.NodeHash(copied.Leaves()) == tree.Nodes[0].Hash)
	for e, err := range published.In(ctx, digest.All) {
		if err != nil {
			log.Fatal(err)
		}
		if mine[e.Key] != e.Sum {
			fmt.Println("differs:", e.Key)
		}
	}
	// Output:
	// equal: false
	// differs: Troll
}
