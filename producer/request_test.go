package producer

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// TestRequestAllocates: publishing an entity takes three allocations before it is committed: the
// request, the Content-ID and the channel on which the publisher waits.
func TestRequestAllocates(t *testing.T) {
	f := &Feed{idStart: "<ABCDEFGHIJKLMNOPQRSTUVWXYZ-", idEnd: "@" + strings.Repeat("a", 30) + ">"}
	e := feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: "key"}
	n := testing.AllocsPerRun(100, func() {
		e.ContentID = ""
		if _, err := f.newRequest(t.Context(), []*Entity{&e}, Batch{}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 {
		t.Errorf("%.0f allocations, want at most 3", n)
	}
}

// TestLoad compares the estimated size of a part with its actual size on a page.
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
