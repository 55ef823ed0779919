// Package bridgetest reads and verifies the feeds of bridges in tests.
package bridgetest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

// An Event is an entity in a feed.
type Event struct {
	bridge.Version
	Op        feed.Operation
	ContentID string
	MediaType string
	Body      string
}

// Events returns the entities of a feed, or none if the feed does not exist.
func Events(t testing.TB, store storage.Store, name string) (events []Event) {
	t.Helper()
	pages := chain.NewReader(store, name)
	newest, err := pages.Newest(t.Context())
	if errors.Is(err, chain.ErrNoFeed) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= newest.Number; n++ {
		p, object, err := pages.Open(t.Context(), n, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		for part, err := range page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{}).Parts() {
			if err != nil {
				t.Fatal(err)
			}
			var e feed.Entity
			if err := feed.Parse(&e, part, true); err != nil {
				t.Fatal(err)
			}
			held, ok := bridge.VersionOf(e.ContentLocation, string(part.Header.Get("ETag")))
			if !ok {
				t.Fatalf("entity %+v is not from a bridge", e)
			}
			body := bytes.Clone(e.Body)
			if e.Stream != nil {
				if body, err = io.ReadAll(e.Stream); err != nil {
					t.Fatal(err)
				}
			}
			events = append(events, Event{held, e.Operation, e.ContentID, e.ContentType, string(body)})
		}
		object.Body.Close()
	}
	return events
}

// Verify fails the test if a feed that exists violates the specification.
func Verify(t testing.TB, store storage.Store, name string) {
	t.Helper()
	if len(Events(t, store, name)) == 0 {
		return
	}
	report, err := verify.Store(t.Context(), store, name, "")
	if err != nil || len(report.Violations) > 0 {
		t.Errorf("verify: %v, %+v", err, report)
	}
}
