package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/bridge/couchdb"
)

// bridgeMetrics are the counts of a bridge, for Prometheus.
type bridgeMetrics struct{ progress func() couchdb.Progress }

// bridgeCounts are the metrics, by the ends of their names.
var bridgeCounts = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(couchdb.Progress) int64
}{
	{"rows_total", "Rows of the changes feed that were read.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Rows }},
	{"documents_read_total", "Documents that were read.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Read }},
	{"entities_published_total", "Entities that were published.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Published }},
	{"repeated_total", "Rows that the source sent again.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Repeated }},
	{"rewinds_total", "How often the source began to send rows again.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Rewinds }},
	{"quarantined_total", "Documents and rows that were put into quarantine.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Quarantined }},
	{"superseded_total", "Revisions that gave way to others before they were read.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Superseded }},
	{"requests_total", "Requests for the changes feed.", prometheus.CounterValue, func(p couchdb.Progress) int64 { return p.Requests }},
	{"pending", "Rows that are still to come, -1 if the source does not say.", prometheus.GaugeValue, func(p couchdb.Progress) int64 { return p.Pending }},
}

// bridgeTimes are further metrics, absent as long as they are zero.
var bridgeTimes = []struct {
	name, help string
	value      func(couchdb.Progress) time.Time
}{
	{"last_poll_timestamp_seconds", "When the source last sent something of its changes, if only a heartbeat.", func(p couchdb.Progress) time.Time { return p.LastPoll }},
	{"last_publish_timestamp_seconds", "When entities were last published.", func(p couchdb.Progress) time.Time { return p.LastPublish }},
}

func bridgeMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("feedctl_bridge_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (m bridgeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range bridgeCounts {
		to <- bridgeMetric(c.name, c.help)
	}
	for _, c := range bridgeTimes {
		to <- bridgeMetric(c.name, c.help)
	}
}

// Collect implements [prometheus.Collector].
func (m bridgeMetrics) Collect(to chan<- prometheus.Metric) {
	p := m.progress()
	for _, c := range bridgeCounts {
		to <- prometheus.MustNewConstMetric(bridgeMetric(c.name, c.help), c.kind, float64(c.value(p)))
	}
	for _, c := range bridgeTimes {
		if value, ok := seconds(c.value(p)); ok {
			to <- prometheus.MustNewConstMetric(bridgeMetric(c.name, c.help), prometheus.GaugeValue, value)
		}
	}
}

// serveMetrics serves /metrics until stop is called. Without an address it does nothing.
func (a *app) serveMetrics(address string, collector prometheus.Collector) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	a.log.Info("serving metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	return func() error {
		err := web.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
