package snapshot_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/feedctl/feedctl/snapshot"
)

func ExampleParse() {
	index, err := snapshot.Parse(strings.NewReader(`{
		"id": "1",
		"createdAt": "2023-11-27T20:52:17.000Z",
		"pages": ["https://example.com/snapshots/zones/1/pages/0"],
		"feed": {"url": "https://example.com/feeds/zones", "lastModified": "2023-11-27T20:52:17.912Z", "contentId": "<c-4711>"}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(index.Pages[0])
	fmt.Println(index.Feed.URL, "after", index.Feed.ContentID)
	// Output:
	// https://example.com/snapshots/zones/1/pages/0
	// https://example.com/feeds/zones after <c-4711>
}
