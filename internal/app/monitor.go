package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/internal/webserver"
)

// MetricsUsage is the help text of the flag --metrics.
const MetricsUsage = "serve /metrics for Prometheus, and /readyz, at this `ADDRESS`"

// ServeMetrics serves /metrics and /readyz until the command ends. The metrics are those of the collector, and
// those that every long-running command has. /readyz reports whether the servers and stores that the command uses
// respond, and the results of the given checks. If the address is empty, ServeMetrics does nothing. It must be
// called before the command opens anything.
func (a *App) ServeMetrics(address string, collector prometheus.Collector, checks ...readiness.Check) error {
	if address == "" {
		return nil
	}
	used := new(readiness.Watch)
	a.Reached = used.Note
	a.web.Watch(used)
	return a.ServeMetricsBy(address, a.Metrics(collector), append([]readiness.Check{used.Check}, checks...)...)
}

// ServeMetricsBy serves /metrics with the given handler, and /readyz with the given checks.
func (a *App) ServeMetricsBy(address string, handler http.Handler, checks ...readiness.Check) error {
	if address == "" {
		return nil
	}
	if err := webserver.CheckAddress(address); err != nil {
		return exit.Usagef("--metrics %q is not HOST:PORT: %w", address, err)
	}
	stop, err := metrics.Serve(address, handler, readiness.New(checks...), a.Log)
	if err == nil {
		a.AtEnd(stop, "metrics")
	}
	return err
}

// Connections returns the number of open HTTP connections for each HOST:PORT.
func (a *App) Connections() map[string]int { return a.web.Connections() }

// Registry returns a registry with the metrics that every process has.
func (a *App) Registry() *prometheus.Registry {
	return metrics.NewRegistry(cli.ThisVersion().Version, a.web, &a.logged)
}

// Metrics returns the handler of /metrics, with the metrics of the collector and those that every process has.
func (a *App) Metrics(collector prometheus.Collector) http.Handler {
	registry := a.Registry()
	registry.MustRegister(collector)
	return metrics.Handler(registry)
}
