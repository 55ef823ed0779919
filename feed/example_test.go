package feed_test

import (
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// The same Entity can be used for all entities of a page.
func ExampleParse() {
	const document = "--b\r\n" +
		"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\n" +
		"Content-Type: text/plain\r\n" +
		"Content-ID: <1-A@example>\r\n" +
		"Operation-Type: http-equiv=PUT\r\n" +
		"Content-Location: Europe%2FBerlin\r\n" +
		"\r\n" +
		"hello\r\n" +
		"--b--\r\n"
	var e feed.Entity
	for part, err := range page.NewReader(strings.NewReader(document), "b", page.ReaderOptions{}).Parts() {
		if err != nil {
			log.Fatal(err)
		}
		if err := feed.Parse(&e, part, true); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s %s: %s\n", e.ContentID, e.Operation, e.Key(), e.Body)
	}
	// Output: <1-A@example> PUT Europe/Berlin: hello
}

func ExampleParseLinks() {
	base, err := url.Parse("https://example.com/feeds/zones")
	if err != nil {
		log.Fatal(err)
	}
	header := http.Header{"Link": {`</feeds/zones/pages/7>; rel="self", </feeds/zones/pages/6>; rel=prev`}}
	links, err := feed.ParseLinks(base, header)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(links.Prev)
	// Output: https://example.com/feeds/zones/pages/6
}

// On the wire, the fraction of a second is cut off: a time is never rounded up.
func ExampleFormatTime() {
	fmt.Println(feed.FormatTime(time.Date(2023, 11, 27, 3, 10, 0, 999e6, time.UTC)))
	// Output: Mon, 27 Nov 2023 03:10:00 GMT
}

func ExampleEncodeKey() {
	e := feed.Entity{ContentLocation: feed.EncodeKey("Europe/Zürich")}
	fmt.Println(e.ContentLocation)
	fmt.Println(e.Key())
	// Output:
	// Europe%2FZ%C3%BCrich
	// Europe/Zürich
}
