package main

import (
	"github.com/prometheus/client_golang/prometheus"

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
	stop, err := metrics.Serve(address, metrics.Handler(collector, a.web, &a.logged), a.log)
	if err == nil {
		a.atEnd(stop, "metrics")
	}
	return err
}
