package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/webserver"
)

const metricsUsage = "serve metrics for Prometheus at /metrics of this `ADDRESS`"

// serveMetrics serves /metrics until the command ends: those of the collector, and what all
// commands that run for long have. Without an address it does nothing.
func (a *app) serveMetrics(address string, collector prometheus.Collector) error {
	if address == "" {
		return nil
	}
	if err := webserver.CheckAddress(address); err != nil {
		return exit.Usagef("--metrics %q is not HOST:PORT: %w", address, err)
	}
	stop, err := metrics.Serve(address, a.metricsHandler(collector), a.log)
	if err == nil {
		a.atEnd(stop, "metrics")
	}
	return err
}

func (a *app) metricsHandler(collector prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector,
		metrics.Counts("feedctl_http_requests_total", "Requests that were sent by HTTP, those that were repeated among them.", "method", &a.web.Tally),
		metrics.Counts("feedctl_http_failures_total", "Requests by HTTP without an answer, or with one that says that the server is ill or busy.", "method", &a.web.failed),
		metrics.Counts("feedctl_log_messages_total", "Messages in the log: what fails and is tried again is a warning.", "level", &a.logged),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
