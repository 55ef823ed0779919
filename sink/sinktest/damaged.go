package sinktest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// damagedFeed is the URL of a feed of two pages: one with the entities 1 and 2, one with 3 to 5.
const damagedFeed = "http://feed.test/2"

// damagedPages serves the pages of damagedFeed. While damaged is set, the body of entity 3 is
// different.
type damagedPages struct{ damaged bool }

// RoundTrip implements [http.RoundTripper].
func (p *damagedPages) RoundTrip(r *http.Request) (*http.Response, error) {
	first, last, links := 3, 5, []string{`<http://feed.test/2>; rel="self"`, `<http://feed.test/1>; rel="prev"`}
	if r.URL.Path == "/1" {
		first, last, links = 1, 2, []string{`<http://feed.test/1>; rel="self"`, `<http://feed.test/2>; rel="next"`}
	}
	var page bytes.Buffer
	for n := first; n <= last; n++ {
		e := damagedEntity(n)
		fmt.Fprintf(&page, "--b\r\nLast-Modified: %s\r\nContent-Type: %s\r\nContent-ID: %s\r\nOperation-Type: http-equiv=PUT\r\nContent-Location: %s\r\n\r\n%s\r\n",
			feed.FormatTime(e.LastModified), e.ContentType, e.ContentID, e.ContentLocation, e.Body)
	}
	page.WriteString("--b--\r\n")
	sum := sha256.Sum256(page.Bytes())
	body := page.Bytes()
	if p.damaged {
		body = bytes.Replace(body, []byte(`{"n":3}`), []byte(`{"n":7}`), 1)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
		Header: http.Header{
			"Content-Type": {`multipart/mixed; boundary="b"`}, "Link": links,
			"Last-Modified": {feed.FormatTime(damagedEntity(last).LastModified)},
			"Repr-Digest":   {"sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"},
		},
	}, nil
}

func damagedEntity(n int) *feed.Entity {
	e := put(n, fmt.Sprintf("key%d", n), fmt.Sprintf(`{"n":%d}`, n))
	e.Header = nil
	return e
}

// damaged reads a page that is too large to be buffered and turns out to be damaged after some of
// its entities were committed. The position must be before the page, so that all of it is read
// again once it has been repaired. Until then, no more of its entities may be delivered.
func (s suite) damaged(t *testing.T) {
	for name, from := range map[string]struct{ position, after feed.Position }{
		"from the page before": {
			feed.Position{LastModified: stamp(1), ContentID: contentID(1), Page: "http://feed.test/1", Feed: damagedFeed},
			feed.Position{LastModified: stamp(2), ContentID: contentID(2), Page: "http://feed.test/1", Feed: damagedFeed, Damaged: damagedFeed},
		},
		"from within the page": {
			feed.Position{LastModified: stamp(3), ContentID: contentID(3), Page: "http://feed.test/2", Feed: damagedFeed},
			feed.Position{LastModified: stamp(3), Feed: damagedFeed, Damaged: damagedFeed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			k := s.open(t, dir)
			b := begin(t, k)
			var want []Record
			for n := 1; n <= number(from.position.ContentID); n++ {
				e := damagedEntity(n)
				apply(t, b, e)
				want = append(want, record(e, e.Body))
			}
			commit(t, b, from.position)
			pages := &damagedPages{damaged: true}
			client, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: pages}, MaxHeld: 1, ReadAhead: 64})
			if err != nil {
				t.Fatal(err)
			}
			job := consumer.Job{Client: client, URL: damagedFeed, Sink: k, BatchEntities: 1}
			stats, err := job.Run(t.Context())
			if !errors.Is(err, consumer.ErrDamaged) {
				t.Fatalf("the damaged page was read, %+v: %v", stats, err)
			}
			at, err := k.Position(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			from.after.Committed = at.Committed
			checkPosition(t, k, from.after)
			for range 10 {
				if again, err := job.Run(t.Context()); !errors.Is(err, consumer.ErrDamaged) || again.Batches > 0 {
					t.Fatalf("the page is still damaged, %+v: %v", again, err)
				}
			}
			checkPosition(t, k, from.after)
			pages.damaged = false
			if _, err := job.Run(t.Context()); err != nil {
				t.Fatalf("read again from %+v: %v", at, err)
			}
			if at, err = k.Position(t.Context()); err != nil || at.Damaged != "" || at.ContentID != contentID(5) {
				t.Errorf("after the repair the position is %+v: %v", at, err)
			}
			closeSink(t, k)
			if !s.Log {
				s.check(t, dir, damagedRecords(1, 5)...)
				return
			}
			if len(want) == 1 { // entities before the page, those committed from the damaged page, and the repaired page
				wrong := record(damagedEntity(3), []byte(strings.Replace(`{"n":3}`, "3", "7", 1)))
				want = append(damagedRecords(1, 2), wrong)
			}
			s.check(t, dir, append(append(want, damagedRecords(4, 4)...), damagedRecords(3, 5)...)...)
		})
	}
}

// damagedRecords returns the records of entities in a log.
func damagedRecords(first, last int) (records []Record) {
	for n := first; n <= last; n++ {
		e := damagedEntity(n)
		records = append(records, record(e, e.Body))
	}
	return records
}
