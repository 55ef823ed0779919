package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// BenchmarkPages measures each page of the console of a store with 10,000 feeds, in memory and in a directory. The
// limit for a page is 100 ms.
func BenchmarkPages(b *testing.B) {
	stores := map[string]func() (storage.Store, error){
		"memory": func() (storage.Store, error) { return memory.New(), nil },
		"file": func() (storage.Store, error) {
			return file.Create(context.Background(), &url.URL{Scheme: "file", Opaque: b.TempDir()})
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(stores)) {
		b.Run(kind, func(b *testing.B) {
			store, err := stores[kind]()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			fillMany(b, store, manyFeeds, time.Now())
			tracker := manyReaders(time.Now(), manyFeeds)
			c := manyConsole(b, store, tracker)
			const writer = "Authorization: Bearer all"
			post(c, "/verify", url.Values{"feed": {manyName(0)}}, writer)
			paths := manyPaths(tracker)
			for _, path := range slices.Sorted(maps.Keys(paths)) {
				for n, v := range paths[path] {
					url := path + "?" + v.query
					begun := time.Now()
					get(c, url, writer) // the first request reads more
					first := time.Since(begun)
					b.Run(strings.TrimPrefix(path, "/")+"-"+string(rune('a'+n)), func(b *testing.B) {
						for b.Loop() {
							if w := get(c, url, writer); w.Code != http.StatusOK {
								b.Fatal(w.Code)
							}
						}
						b.ReportMetric(float64(first.Microseconds())/1000, "ms/first")
					})
				}
			}
		})
	}
}
