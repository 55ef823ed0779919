package server

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// storeMetrics measure the operations on the store.
type storeMetrics struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

func newStoreMetrics() *storeMetrics {
	return &storeMetrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "feedctl_store_operation_duration_seconds", Help: "Duration of operations on the store; of get, until the body is open.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_store_errors_total", Help: "Operations on the store that failed.",
		}, []string{"operation"}),
	}
}

func (m *storeMetrics) observe(_ context.Context, o observe.Operation) {
	m.seconds.WithLabelValues(o.Name).Observe(o.Took.Seconds())
	if o.Failed() && !errors.Is(o.Err, context.Canceled) {
		m.errors.WithLabelValues(o.Name).Inc()
	}
}

// A storeCollector collects the statistics of the store, of the pages in memory and of
// the cache.
type storeCollector struct {
	server                        *Server
	requests, memory              *prometheus.Desc
	hits, misses, fetched         *prometheus.Desc
	corrupt                       *prometheus.Desc
	bytes, pages, off             *prometheus.Desc
	added, evicted, damaged, errs *prometheus.Desc
}

func newStoreCollector(s *Server) *storeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &storeCollector{
		server:   s,
		requests: desc("feedctl_store_requests_total", "Requests sent to the store's server, including failed ones.", "operation"),
		memory:   desc("feedctl_page_memory_bytes", "Memory used by pages read from the store."),
		hits:     desc("feedctl_page_cache_hits_total", "Requested pages that were in the cache on disk."),
		misses:   desc("feedctl_page_cache_misses_total", "Requested pages that were not in the cache on disk."),
		fetched:  desc("feedctl_pages_fetched_total", "Pages read from the store into memory, because they were requested or ahead of requests.", "why"),
		corrupt:  desc("feedctl_corrupt_objects_total", "Objects read from the store whose body or metadata was corrupt."),
		bytes:    desc("feedctl_page_cache_bytes", "Size of the cache on disk."),
		pages:    desc("feedctl_page_cache_pages", "Pages in the cache on disk."),
		off:      desc("feedctl_page_cache_off", "1 while the cache is disabled because of a disk error."),
		added:    desc("feedctl_page_cache_added_total", "Pages added to the cache on disk."),
		evicted:  desc("feedctl_page_cache_evicted_total", "Pages removed from the cache to make room."),
		damaged:  desc("feedctl_page_cache_damaged_total", "Pages removed from the cache because they were damaged."),
		errs:     desc("feedctl_page_cache_errors_total", "Errors of the disk that holds the cache."),
	}
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.memory, c.hits, c.misses, c.fetched, c.corrupt, c.bytes, c.pages, c.off, c.added, c.evicted, c.damaged, c.errs} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	if counter, ok := storage.As[storage.Counter](c.server.store); ok {
		for operation, n := range counter.Requests() {
			out <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(n), operation)
		}
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	read := c.server.reader.Stats()
	count(c.hits, read.CacheHits)
	count(c.misses, read.CacheMisses)
	count(c.fetched, read.Asked, "asked")
	count(c.fetched, read.Ahead, "ahead")
	count(c.corrupt, read.Corrupt)
	gauge := func(d *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	if c.server.config.ReadAhead > 0 {
		gauge(c.memory, float64(read.Memory))
	}
	cache := c.server.config.Cache
	if cache == nil {
		return
	}
	s := cache.Stats()
	gauge(c.bytes, float64(s.Bytes))
	gauge(c.pages, float64(s.Pages))
	off := 0.0
	if s.Off {
		off = 1
	}
	gauge(c.off, off)
	count(c.added, s.Added)
	count(c.evicted, s.Evicted)
	count(c.damaged, s.Damaged)
	count(c.errs, s.Errors)
}
