package consumer_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestEntityAt reads entities at given offsets, from servers that support range requests and from
// others.
func TestEntityAt(t *testing.T) {
	store := memory.New()
	f, err := producer.Open(t.Context(), store, "zones", producer.Config{MaxPageBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bodies := []string{"first", strings.Repeat("middle", 10_000), strings.Repeat("large", 500_000), "small", "last"}
	for _, body := range bodies {
		if _, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentLocation: "k", ContentType: "text/plain", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close(t.Context())
	for name, ranges := range map[string]bool{"ranges": true, "no ranges": false} {
		var sent []string
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			sent = append(sent, q.Header.Get("Range"))
			if !ranges {
				q.Header.Del("Range")
			}
			handler.ServeHTTP(w, q)
		}))
		defer web.Close()
		client, err := consumer.New(consumer.Config{MaxWhole: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		url := web.URL + "/feeds/zones"
		n := 0
		for e, err := range client.Entities(t.Context(), url, consumer.Beginning()) {
			if err != nil {
				t.Fatal(err)
			}
			var got string
			sent = nil
			err := client.EntityAt(t.Context(), url, e.Page, e.Offset, func(at *consumer.Entity) error {
				got = string(at.Body)
				if at.Stream != nil {
					var b strings.Builder
					if _, err := io.Copy(&b, at.Stream); err != nil {
						return err
					}
					got = b.String()
				}
				if at.ContentID != e.ContentID || at.Offset != e.Offset {
					t.Errorf("%s: entity %d is %+v", name, n, at)
				}
				return nil
			})
			if err != nil || got != bodies[n] {
				t.Errorf("%s: entity %d has %d bytes, want %d; %v", name, n, len(got), len(bodies[n]), err)
			}
			if n == 3 && ranges && (len(sent) != 1 || strings.HasSuffix(sent[0], "-")) {
				t.Errorf("ranges requested for a small entity: %q", sent)
			}
			n++
		}
		if n != len(bodies) {
			t.Errorf("%s: read %d entities", name, n)
		}
		stop := errors.New("stop")
		if err := client.EntityAt(t.Context(), url, url+"/pages/1", 0, func(*consumer.Entity) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v, want the error of the function", name, err)
		}
		if err := client.EntityAt(t.Context(), url, url+"/pages/1", 7, func(*consumer.Entity) error { return nil }); err == nil {
			t.Errorf("%s: there is an entity at an offset where none begins", name)
		}
		var status *consumer.StatusError
		if err := client.EntityAt(t.Context(), url, url+"/pages/9", 0, func(*consumer.Entity) error { return nil }); !errors.As(err, &status) {
			t.Errorf("%s: page that does not exist: %v", name, err)
		}
	}
}
