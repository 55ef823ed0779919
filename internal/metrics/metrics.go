// Package metrics counts what a process does, and serves the counts for Prometheus.
package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A collector sends metrics when they are scraped.
type collector func(to sender)

// Describe implements [prometheus.Collector]. It sends nothing: which metrics there are is known
// when they are collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

type sender chan<- prometheus.Metric

// value sends a metric, which is a counter if its name ends with "_total". Label is empty, or the
// name and the value of a label.
func (to sender) value(name, help string, v float64, label ...string) {
	kind, labels := prometheus.GaugeValue, prometheus.Labels{}
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	if len(label) > 0 {
		labels[label[0]] = label[1]
	}
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("feedctl_"+name, help, nil, labels), kind, v)
}

func (to sender) count(name, help string, n int64, label ...string) {
	to.value(name, help, float64(n), label...)
}

// time sends a time, unless it is zero.
func (to sender) time(name, help string, t time.Time, label ...string) {
	if !t.IsZero() {
		to.value(name, help, float64(t.UnixMilli())/1000, label...)
	}
}

func (to sender) tally(name, help, label string, t *Tally) {
	for of, n := range t.Requests() {
		to.value(name, help, float64(n), label, of)
	}
}

// maxScrapes is how many requests for metrics are answered at the same time; others have status 503.
const maxScrapes = 4

// sendTime limits how long a client may take to read the metrics, which count as a request meanwhile.
const sendTime = 30 * time.Second

// Handler returns a handler that serves the metrics of c, and those that all commands have.
func Handler(c prometheus.Collector, web *Transport, logged *Tally) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collector(func(to sender) {
		to.tally("http_requests_total", "Requests that were sent by HTTP, including those that were repeated.", "method", &web.Tally)
		to.tally("http_failures_total", "HTTP requests without a response, or with one that says that the server failed or is busy.", "method", &web.failed)
		to.tally("log_messages_total", "Messages in the log. What fails and is retried is a warning.", "level", logged)
	}), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

// Serve serves a handler at /metrics of an address until stop is called, and logs the URL.
func Serve(address string, handler http.Handler, log *slog.Logger) (stop func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
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
