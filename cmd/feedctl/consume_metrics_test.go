package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

func TestConsumeMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m consumeGauge
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m.metrics())
		scrape := func() string {
			w := httptest.NewRecorder()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w.Body.String()
		}
		if got := scrape(); strings.Contains(got, "timestamp") {
			t.Errorf("before the first commit there are times:\n%s", got)
		}
		m.set(consumer.Progress{
			Stats:    consumer.Stats{Entities: 7, Rejected: consumer.Rejected{Refused: 2}},
			Position: feed.Position{LastModified: time.Unix(1_700_000_000, 0)},
		})
		got := scrape()
		for _, want := range []string{
			"entities_total 7", "rejected_total 2", "last_commit_timestamp_seconds 9.466848e+08", // when fake time begins
			"position_timestamp_seconds 1.7e+09",
		} {
			if !strings.Contains(got, "\nfeedctl_consume_"+want+"\n") {
				t.Errorf("there is no %s:\n%s", want, got)
			}
		}
	})
}

// A variable that sets no flag is told, with the one that was probably meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("FEEDCTL_STOER", "file:x")
	t.Setenv("FEEDCTL_READ_CREDENTIALS", "bearer x")
	t.Setenv("FEEDCTL_TEST_S3", "x")
	_, _, stderr := feedctl(t, "", "version")
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "variable=FEEDCTL_STOER did_you_mean=FEEDCTL_STORE") {
		t.Errorf("it says %q", stderr)
	}
}

func TestVersionFlag(t *testing.T) {
	want := mustRun(t, "", "version")
	if got := mustRun(t, "", "--version"); got != want {
		t.Errorf("--version prints %q, version %q", got, want)
	}
}
