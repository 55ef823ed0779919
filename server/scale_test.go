package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestFeedsByThousands counts the operations on a store with 10,000 feeds: a page of the
// directory costs in proportion to its names, and a scrape of the metrics in proportion to the
// feeds that it has time to poll.
func TestFeedsByThousands(t *testing.T) {
	base := memory.New()
	const feeds = 10_000
	publishTo(t, base, "f00000", 1, 1)
	info, err := base.Stat(t.Context(), "feeds/f00000/pages/000000000001")
	check(t, err)
	for n := 1; n < feeds; n++ {
		_, err := base.Create(t.Context(), fmt.Sprintf("feeds/f%05d/pages/000000000001", n), info.Meta, storage.Bytes())
		check(t, err)
	}
	var operations atomic.Int64
	counted := fault.Wrap(base, func(fault.Op) fault.Outcome { operations.Add(1); return fault.Pass })
	c := inside(t, newServer(t, counted, server.Config{}))
	for _, test := range []struct {
		path  string
		names int
		most  int64
	}{
		{"/?limit=1", 1, 10},
		{"/?limit=100&after=feeds/f05000", 100, 110},
		{"/", 1000, 1010},
		{"/metrics", 0, 50*12 + 10},
	} {
		operations.Store(0)
		answer := c.get(t, test.path)
		count := operations.Load()
		t.Logf("%s: %d operations, %d bytes", test.path, count, len(answer.body))
		if answer.StatusCode != http.StatusOK || count > test.most {
			t.Errorf("%s: %s, %d operations, want at most %d", test.path, answer.Status, count, test.most)
		}
		var d server.Directory
		if test.names > 0 && (json.Unmarshal(answer.body, &d) != nil || len(d.Feeds) != test.names) {
			t.Errorf("%s: %d names", test.path, len(d.Feeds))
		}
	}
}
