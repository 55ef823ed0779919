// Package metrics counts what a process does, and serves the counts for Prometheus.
package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

// A collector sends metrics when they are scraped.
type collector func(to sender)

// Describe implements [prometheus.Collector]. It sends nothing, since the set of metrics is known
// only when they are collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

type sender chan<- prometheus.Metric

// value sends a metric of the catalog, with the values of its labels.
func (to sender) value(name string, v float64, labels ...string) {
	catalog.Send(to, name, v, labels...)
}

func (to sender) count(name string, n int64, labels ...string) {
	to.value(name, float64(n), labels...)
}

// time sends a time, unless it is zero.
func (to sender) time(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		to.value(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// tally sends a counter with one label.
func (to sender) tally(name string, t *Tally) {
	for of, n := range t.Requests() {
		to.value(name, float64(n), of)
	}
}

// maxScrapes is how many requests for metrics are answered at the same time; further requests get status 503.
const maxScrapes = 4

// sendTime limits how long a client may take to read the metrics, during which the request counts
// toward maxScrapes.
const sendTime = 30 * time.Second

// NewRegistry returns a registry with the metrics that every process has: those of this version of
// feedctl, of the HTTP requests that the process sends, of its log, of the Go runtime and of the
// process itself.
func NewRegistry(version string, web *Transport, logged *Tally) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func(to sender) {
		to.count("build_info", 1, version)
		to.tally("http_client_requests_total", &web.Tally)
		to.tally("http_client_failures_total", &web.failed)
		to.tally("log_messages_total", logged)
	}), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Handler returns a handler that serves metrics.
func Handler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

// Serve serves the two handlers at /metrics and /readyz of an address until stop is called, and logs
// the URL.
func Serve(address string, handler, ready http.Handler, log *slog.Logger) (stop func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	mux.Handle("GET /readyz", ready)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: sendTime}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	log.Info("serving metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	return func() error {
		err := web.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
