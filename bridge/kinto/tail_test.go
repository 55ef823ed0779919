package kinto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// newestFirst returns a rig that reads newest first from a fake with pages of 50 rows.
func newestFirst(t *testing.T, records int) (*rig, *kintotest.Fake) {
	fake := kintotest.NewFake(t)
	fake.Page = 50
	r := newRigOf(t, fake.NewCollection(t))
	r.configure = func(c *Config) {
		c.NewestFirst = true
		c.Window = time.Millisecond // all records are younger than a minute
	}
	fake.Fill(r.url, records, func(i int) string { return fmt.Sprintf(`{"n":%d}`, i) })
	return r, fake
}

// onTail calls f before each request for a page of older records, with its number.
func (r *rig) onTail(f func(page int)) {
	n := 0
	r.client.HTTP = &http.Client{Transport: &wire{func(q *http.Request) (*http.Response, int64, error) {
		if strings.HasPrefix(q.URL.Query().Get("_sort"), "-") {
			n++
			f(n)
		}
		return nil, -1, nil
	}}}
}

// TestNewestFirst: the newest records come first in the feed, and what changes meanwhile is published
// alongside the older records. Each version is there once.
func TestNewestFirst(t *testing.T) {
	r, _ := newestFirst(t, 600)
	r.onTail(func(page int) {
		switch page {
		case 3:
			r.put("r599", `"n":"read already"`)
			r.put("r1", `"n":"not read yet"`)
			r.put("fresh", `"n":1`)
			r.delete("r598")
			r.delete("r2")
		case 5:
			r.put("r2", `"n":"again"`)
			r.delete("fresh")
		}
	})
	r.run()
	r.check()
	events := r.events()
	if first := events[0].ID; first != "r599" {
		t.Errorf("the feed begins with %s", first)
	}
	times := map[string]int{}
	for _, e := range events {
		times[e.ID]++
	}
	for id, n := range times {
		changed := id == "r599" || id == "r598" || id == "fresh" || id == "r1" || id == "r2"
		if n > 2 || n > 1 && !changed {
			t.Errorf("%s is in the feed %d times", id, n)
		}
	}
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
}

// TestNewestFirstKilled: the bridge is stopped at every page of older records.
func TestNewestFirstKilled(t *testing.T) {
	r, fake := newestFirst(t, 400)
	pages := 0
	for kills := 0; ; kills++ {
		// A page may be fetched before the previous one is committed, so kills come later and later, to allow
		// for slow machines.
		last := 2 + kills/10
		ctx, kill := context.WithCancel(t.Context())
		r.onTail(func(page int) {
			pages++
			if page == last {
				r.put(fmt.Sprint("r", 10*kills%400), `"n":"changed"`)
				kill()
			}
		})
		b := r.open(r.store)
		_, err := b.Run(ctx)
		err = errors.Join(err, b.Close())
		if ctx.Err() == nil && err != nil {
			t.Fatal(err)
		}
		if kill(); err == nil {
			break
		}
	}
	if pages > 200 { // 350 without any progress between kills
		t.Errorf("400 records in pages of 50 take %d requests", pages)
	}
	fake.Requests()
	r.client.HTTP = nil
	r.run()
	r.check()
}
