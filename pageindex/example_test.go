package pageindex_test

import (
	"fmt"
	"log"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/pageindex"
)

func Example() {
	at, err := url.Parse("https://example.org/feeds/zones/index/0")
	if err != nil {
		log.Fatal(err)
	}
	tile, err := pageindex.Parse(strings.NewReader(`{"tile": 0, "full": false, "pages": [
		{"number": 1, "url": "../pages/1", "entities": 731, "bytes": 1048211,
		 "first": "2026-01-02T03:04:05Z", "last": "2026-01-02T03:09:51.2Z"}
	]}`), at)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range tile.Pages {
		fmt.Println(p.URL, p.Entities, "entities")
	}
	// Output: https://example.org/feeds/zones/pages/1 731 entities
}
