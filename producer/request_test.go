package producer

import (
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// TestLoad compares the size expected of a part with its size on a page.
func TestLoad(t *testing.T) {
	for _, size := range []int{0, 9, 10, 99, 100, 999, 1000, 12_345} {
		e := feed.Entity{ContentID: "<1@test>", Operation: feed.Put, ContentType: "text/plain", Body: make([]byte, size)}
		if size > 50 {
			e.ContentLocation, e.Header = "key", []feed.Field{{Name: "X-Other", Value: "some"}}
		}
		header := e.AppendHeader(nil)
		part, err := page.AppendPart(nil, page.NewBoundary(), header, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := loadOf(&e, int64(size)); got != int64(len(part)) {
			t.Errorf("load of a body of %d bytes is %d, want %d", size, got, len(part))
		}
	}
}
