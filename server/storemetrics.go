package server

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// storeMetrics measures the operations on the store.
type storeMetrics struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	watch   readiness.Watch // whether operations fail, for readers of /readyz
}

func newStoreMetrics() *storeMetrics {
	return &storeMetrics{seconds: catalog.NewHistogram("store_operation_duration_seconds"), errors: catalog.NewCounter("store_errors_total")}
}

func (m *storeMetrics) observe(_ context.Context, o observe.Operation) {
	m.seconds.WithLabelValues(o.Name).Observe(o.Took.Seconds())
	if o.Failed() && !errors.Is(o.Err, context.Canceled) {
		m.errors.WithLabelValues(o.Name).Inc()
	}
	switch {
	case errors.Is(o.Err, context.Canceled):
	case o.Failed():
		m.watch.Note("store", storeAway(o.Err))
	default:
		m.watch.Note("store", nil)
	}
}

// A storeCollector collects the statistics of the store, of the pages in memory and of
// the cache.
type storeCollector struct{ server *Server }

// Describe implements [prometheus.Collector]. It sends nothing: the catalog describes the metrics.
func (storeCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c storeCollector) Collect(to chan<- prometheus.Metric) {
	count := func(name string, n uint64, labels ...string) { catalog.Send(to, name, float64(n), labels...) }
	if counter, ok := storage.As[storage.Counter](c.server.store); ok {
		for operation, n := range counter.Requests() {
			count("store_requests_total", n, operation)
		}
	}
	read := c.server.reader.Stats()
	count("page_cache_hits_total", read.CacheHits)
	count("page_cache_misses_total", read.CacheMisses)
	count("pages_fetched_total", read.Asked, "asked")
	count("pages_fetched_total", read.Ahead, "ahead")
	count("corrupt_objects_total", read.Corrupt)
	if c.server.config.ReadAhead > 0 {
		catalog.Send(to, "page_memory_bytes", float64(read.Memory))
	}
	cache := c.server.config.Cache
	if cache == nil {
		return
	}
	s := cache.Stats()
	catalog.Send(to, "page_cache_bytes", float64(s.Bytes))
	catalog.Send(to, "page_cache_pages", float64(s.Pages))
	off := 0.0
	if s.Off {
		off = 1
	}
	catalog.Send(to, "page_cache_off", off)
	count("page_cache_added_total", s.Added)
	count("page_cache_evicted_total", s.Evicted)
	count("page_cache_damaged_total", s.Damaged)
	count("page_cache_errors_total", s.Errors)
}
