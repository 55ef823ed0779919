// Package metrics counts what a process does, and serves it for Prometheus.
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
)

// New returns metrics that are computed from what read returns when they are scraped. Their names
// begin with prefix.
func New[T any](prefix string, read func() T, all []Metric[T]) prometheus.Collector {
	return &metrics[T]{prefix, all, read}
}

type metrics[T any] struct {
	prefix string
	all    []Metric[T]
	read   func() T
}

// A Metric is a number, or a time. Times are absent as long as they are zero.
type Metric[T any] struct {
	Name, Help string // a name that ends with "_total" is of a counter
	Value      func(T) int64
	Time       func(T) time.Time // in place of Value
}

func (m *metrics[T]) desc(one Metric[T]) *prometheus.Desc {
	return prometheus.NewDesc(m.prefix+one.Name, one.Help, nil, nil)
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
		if strings.HasSuffix(one.Name, "_total") {
			kind = prometheus.CounterValue
		}
		if one.Time == nil {
			to <- prometheus.MustNewConstMetric(m.desc(one), kind, float64(one.Value(now)))
		} else if at := one.Time(now); !at.IsZero() {
			to <- prometheus.MustNewConstMetric(m.desc(one), kind, float64(at.UnixMilli())/1000)
		}
	}
}

// Serve serves a handler at /metrics of an address until stop is called, and logs the URL.
func Serve(address string, handler http.Handler, log *slog.Logger) (stop func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
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
