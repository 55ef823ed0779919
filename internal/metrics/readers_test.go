package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/readers"
)

// TestReaders: the number of series is limited, and readers without a name have none.
func TestReaders(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tracker := readers.New(readers.Config{Now: func() time.Time { return now }, Users: true})
	h := tracker.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	visit := func(field, user string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/feeds/zones", nil)
		r.Header.Set(feed.ConsumerHeader, field)
		if user != "" {
			r.SetBasicAuth(user, "secret")
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	visit(`name="stock", at=@900`, "kim")
	visit(`name="stock", at=@800`, "")
	visit(`name="new"`, "")
	visit(`name="filling", at=@900, filling`, "")
	visit("", "")
	registry := scraped{t, prometheus.NewRegistry()}
	registry.MustRegister(Readers(tracker))
	if diff := cmp.Diff(map[string]float64{
		`feedctl_readers`: 5, `feedctl_readers_left_out`: 0,
		`feedctl_reader_seen_timestamp_seconds{feed="zones",reader="stock",user="kim"}`:     1000,
		`feedctl_reader_seen_timestamp_seconds{feed="zones",reader="stock",user=""}`:        1000,
		`feedctl_reader_seen_timestamp_seconds{feed="zones",reader="new",user=""}`:          1000,
		`feedctl_reader_seen_timestamp_seconds{feed="zones",reader="filling",user=""}`:      1000,
		`feedctl_reader_position_timestamp_seconds{feed="zones",reader="stock",user="kim"}`: 900,
		`feedctl_reader_position_timestamp_seconds{feed="zones",reader="stock",user=""}`:    800,
	}, registry.scrape()); diff != "" {
		t.Error(diff)
	}
	now = now.Add(time.Minute)
	for n := range maxReaders {
		visit(fmt.Sprintf(`name="%d", at=@1`, n), "")
	}
	got := registry.scrape()
	if len(got) != 2+2*maxReaders || got["feedctl_readers_left_out"] != 4 {
		t.Errorf("%d series, %v readers left out", len(got), got["feedctl_readers_left_out"])
	}
}
