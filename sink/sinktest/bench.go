package sinktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// Benchmark applies entities of 1 KB of JSON in batches of 1,000. An operation is one
// entity, including its share of the commit.
func Benchmark(b *testing.B, o Options) {
	k, err := o.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	entities := BenchmarkEntities()
	b.SetBytes(int64(len(entities[0].Body)))
	b.ReportAllocs()
	var batch consumer.Batch
	for n := 0; b.Loop(); n++ {
		if n%len(entities) == 0 {
			if batch != nil {
				commitBatch(b, batch, n)
			}
			if batch, err = k.Begin(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		e := entities[n%len(entities)]
		e.ContentLocation = fmt.Sprintf("users%%2F%012d", n)
		if err := batch.Apply(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
	commitBatch(b, batch, 1)
}

func commitBatch(b *testing.B, batch consumer.Batch, n int) {
	if err := batch.Commit(b.Context(), at(n)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEntities returns 1,000 entities of 1 KB of JSON, with headers as in a feed.
func BenchmarkEntities() []*feed.Entity {
	var entities []*feed.Entity
	for i := range 1000 {
		body := fmt.Sprintf(`{"id":"user-%06d","name":"Ada Lovelace","active":true,"score":%d.678,"tags":["a","b","c"],"address":{"street":"12 St James's Square","city":"London"},"text":"`, i, i)
		body += strings.Repeat("x", 1000-len(body)-2) + `"}`
		e := put(i, fmt.Sprintf("users/%012d", i), body)
		e.Header = nil
		entities = append(entities, e)
	}
	return entities
}
