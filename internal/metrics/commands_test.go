package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/readiness"
)

// A follower is a [Follower] that is a fixed time behind.
type follower struct {
	lag      time.Duration
	caughtUp time.Time
}

func (f *follower) Lag() time.Duration  { return f.lag }
func (f *follower) CaughtUp() time.Time { return f.caughtUp }

func TestConsumeMetrics(t *testing.T) {
	var p consumer.Progress
	f := &follower{lag: -1}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Consumer(func() consumer.Progress { return p }, f))
	scrape := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	if got := scrape(); strings.Contains(got, "timestamp") || strings.Contains(got, "lag") {
		t.Errorf("before the first commit, there are timestamps or lags:\n%s", got)
	}
	f.lag, f.caughtUp = 3*time.Second, time.Unix(1_700_000_001, 0)
	p = consumer.Progress{
		Stats:    consumer.Stats{Entities: 7, Rejected: consumer.Rejected{Refused: 2, Quarantined: 3}},
		Position: feed.Position{LastModified: time.Unix(1_700_000_000, 0)}, Committed: time.Unix(1_800_000_000, 0),
	}
	got := scrape()
	for _, want := range []string{
		"lag_seconds 3", "caught_up_timestamp_seconds 1.700000001e+09", "entities_total 7", "refused_total 2", "quarantined_total 3", "last_commit_timestamp_seconds 1.8e+09",
		"position_timestamp_seconds 1.7e+09",
	} {
		if !strings.Contains(got, "\nfeedctl_consume_"+want+"\n") {
			t.Errorf("there is no %s:\n%s", want, got)
		}
	}
}

// TestBridgeMetrics gathers the metrics of a bridge as Prometheus does.
func TestBridgeMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Bridge(func() bridge.Progress { return bridge.Progress{Rewinds: 3, Pending: -1, LastPoll: time.Unix(5, 0)} }))
	families, err := registry.Gather()
	if err != nil || len(families) != 10 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	for _, family := range families {
		switch m := family.GetMetric()[0]; family.GetName() {
		case "feedctl_bridge_rewinds_total":
			if m.GetCounter().GetValue() != 3 {
				t.Error(family)
			}
		case "feedctl_bridge_last_poll_timestamp_seconds":
			if m.GetGauge().GetValue() != 5 {
				t.Error(family)
			}
		case "feedctl_bridge_pending":
			if m.GetGauge().GetValue() != -1 {
				t.Error(family)
			}
		}
	}
}

// TestWatchedTransport: the transport records when a server fails, and when it responds again.
func TestWatchedTransport(t *testing.T) {
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	var watch readiness.Watch
	transport := NewTransport()
	transport.Watch(&watch)
	defer transport.CloseIdleConnections()
	for _, test := range []struct {
		status int
		want   string
	}{
		{http.StatusServiceUnavailable, "failed: GET /path: 503 Service Unavailable"},
		{http.StatusNotFound, "ok: "}, // it responds
	} {
		status = test.status
		response, err := (&http.Client{Transport: transport}).Get(server.URL + "/path?secret")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		got := watch.Check(t.Context())
		if len(got) != 1 || got[0].Name != "server "+server.URL || string(got[0].State)+": "+got[0].Error != test.want {
			t.Errorf("%+v, want %s", got, test.want)
		}
	}
}
