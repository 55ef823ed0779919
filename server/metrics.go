package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

// maxPublishedFeeds is how many feeds have counters of their own; what is published to all others is counted
// together.
const maxPublishedFeeds = 10_000

// metrics holds the metrics of a server for Prometheus.
type metrics struct {
	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	bytes      *prometheus.CounterVec
	waiters    prometheus.Gauge
	published  *prometheus.CounterVec
	duplicates *prometheus.CounterVec
	feeds      *catalog.Values // of published and duplicates
	handler    http.Handler
}

func newMetrics(s *Server, operations *storeMetrics) (*metrics, error) {
	m := &metrics{
		requests: catalog.NewCounter("http_requests_total"), seconds: catalog.NewHistogram("http_request_duration_seconds"),
		bytes: catalog.NewCounter("http_response_bytes_total"), waiters: catalog.NewGauge("http_waiters"),
		feeds:     catalog.NewValues(maxPublishedFeeds),
		published: catalog.NewCounter("published_entities_total"), duplicates: catalog.NewCounter("duplicate_entities_total"),
	}
	registry := s.config.Registry
	all := []prometheus.Collector{m.requests, m.seconds, m.bytes, m.waiters, m.published, m.duplicates, feedGauges{s}}
	all = append(all, operations.seconds, operations.errors, storeCollector{s})
	if registry == nil {
		registry = prometheus.NewRegistry()
		all = append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	for _, collector := range all {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m, nil
}

// serve answers /metrics.
func (m *metrics) serve(w *responder, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

func (m *metrics) observe(w *responder, r *http.Request, route string, took time.Duration) {
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		method = "other" // a method that a client invents must not become a time series
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(w.status)).Inc()
	m.bytes.WithLabelValues(route).Add(float64(w.bytes))
	if !w.waited {
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}
