package kinto

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

// BenchmarkFirstFill publishes a collection of 100,000 records of about 400 bytes from a fake.
func BenchmarkFirstFill(b *testing.B) {
	const records = 100_000
	fake := kintotest.NewFake(b)
	url := fake.NewCollection(b)
	fake.Fill(url, records, func(i int) string {
		return fmt.Sprintf(`{"title":"record %d","text":"%0350d"}`, i, i)
	})
	source, err := kinto.Open(kinto.Config{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		dir := b.TempDir()
		bridge, err := Open(b.Context(), Config{
			Source: source, Store: memory.New(), Feed: "f", Index: filepath.Join(dir, "index"), Producer: producer.Config{SpoolDir: dir},
		})
		if err != nil {
			b.Fatal(err)
		}
		report, err := bridge.Run(b.Context())
		if err != nil || report.Published != records {
			b.Fatalf("%+v, %v", report, err)
		}
		if err := bridge.Close(); err != nil {
			b.Fatal(err)
		}
		index, err := os.Stat(filepath.Join(dir, "index"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(index.Size())/records, "index-B/record")
	}
	b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
}
