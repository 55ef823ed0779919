package producer_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// BenchmarkPublish publishes entities of 1 KB to disk. Each publisher publishes one entity at a
// time.
func BenchmarkPublish(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for _, test := range []struct {
		publishers int
		given      bool // whether callers set the Content-IDs, so that the feed must be searched for them
	}{{1, false}, {16, false}, {256, false}, {256, true}} {
		publishers := test.publishers
		b.Run(fmt.Sprintf("publishers=%d/given=%v", publishers, test.given), func(b *testing.B) {
			store, err := file.New(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			f, err := producer.Open(b.Context(), store, testFeed, producer.Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for k := range publishers {
				group.Go(func() {
					for n := k; n < b.N; n += publishers {
						e := &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: "key", Body: body}
						if test.given {
							e.ContentID = fmt.Sprintf("<%d@test>", n)
						}
						if _, err := f.Publish(context.Background(), e); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entities/s")
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
