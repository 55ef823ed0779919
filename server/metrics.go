package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the metrics of a server for Prometheus.
type metrics struct {
	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	bytes      *prometheus.CounterVec
	waiters    prometheus.Gauge
	published  *prometheus.CounterVec
	duplicates *prometheus.CounterVec
	handler    http.Handler
}

func newMetrics(s *Server, operations *storeMetrics) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_http_requests_total", Help: "Requests answered.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "feedctl_http_request_duration_seconds", Help: "Time from a request's header to the end of its response, without those that waited for a change.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"route"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_http_response_bytes_total", Help: "Bytes of response bodies.",
		}, []string{"route"}),
		waiters: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "feedctl_http_waiters", Help: "Requests waiting for a feed to change.",
		}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_published_entities_total", Help: "Entities that were published through this server.",
		}, []string{"feed"}),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_duplicate_entities_total", Help: "Entities that were in the feed already when they were published.",
		}, []string{"feed"}),
	}
	registry := s.config.Registry
	all := []prometheus.Collector{m.requests, m.seconds, m.bytes, m.waiters, m.published, m.duplicates, newFeedGauges(s)}
	all = append(all, operations.seconds, operations.errors, newStoreCollector(s))
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
