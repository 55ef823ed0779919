package main

import (
	"context"
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

const metricsUsage = "serve metrics for Prometheus at /metrics of this `ADDRESS`"

// serveMetrics serves /metrics until stop is called: those of the collector, and what all
// commands that run for long have. Without an address it does nothing.
func (a *app) serveMetrics(address string, collector prometheus.Collector) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	if err := checkAddress(address); err != nil {
		return nil, usagef("--metrics %q is not HOST:PORT: %w", address, err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metricsHandler(collector))
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

func (a *app) metricsHandler(collector prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector,
		counts{prometheus.NewDesc("feedctl_http_requests_total", "Requests that were sent by HTTP, those that were repeated among them.", []string{"method"}, nil), &a.web.tally},
		counts{prometheus.NewDesc("feedctl_http_failures_total", "Requests by HTTP without an answer, or with one that says that the server is ill or busy.", []string{"method"}, nil), &a.web.failed},
		counts{prometheus.NewDesc("feedctl_log_messages_total", "Messages in the log: what fails and is tried again is a warning.", []string{"level"}, nil), &a.logged},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// counts are the metrics of a tally.
type counts struct {
	desc  *prometheus.Desc
	tally *tally
}

// Describe implements [prometheus.Collector].
func (c counts) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector].
func (c counts) Collect(to chan<- prometheus.Metric) {
	for label, n := range c.tally.Requests() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), label)
	}
}

// metrics are computed from what read returns when they are scraped.
type metrics[T any] struct {
	prefix string
	all    []metric[T]
	read   func() T
}

// A metric is a number, or a time. Times are absent as long as they are zero.
type metric[T any] struct {
	name, help string // a name that ends with "_total" is of a counter
	value      func(T) int64
	time       func(T) time.Time // in place of value
}

func (m *metrics[T]) desc(one metric[T]) *prometheus.Desc {
	return prometheus.NewDesc(m.prefix+one.name, one.help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (m *metrics[T]) Describe(to chan<- *prometheus.Desc) {
	for _, one := range m.all {
		to <- m.desc(one)
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics[T]) Collect(to chan<- prometheus.Metric) {
	now := m.read()
	for _, one := range m.all {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(one.name, "_total") {
			kind = prometheus.CounterValue
		}
		if one.time == nil {
			to <- prometheus.MustNewConstMetric(m.desc(one), kind, float64(one.value(now)))
		} else if at := one.time(now); !at.IsZero() {
			to <- prometheus.MustNewConstMetric(m.desc(one), kind, float64(at.UnixMilli())/1000)
		}
	}
}

// A countedLog counts messages of level warn and above by their level, shown or not.
type countedLog struct {
	slog.Handler
	logged *tally
}

// Enabled implements [slog.Handler].
func (h countedLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h countedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.logged.add(strings.ToLower(r.Level.String()))
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h countedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return countedLog{h.Handler.WithAttrs(attrs), h.logged}
}

// WithGroup implements [slog.Handler].
func (h countedLog) WithGroup(name string) slog.Handler {
	return countedLog{h.Handler.WithGroup(name), h.logged}
}
