package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/storage"
)

// startMaintenance maintains the feeds of a store until the end of the command. It returns a registry
// with the metrics.
func startMaintenance(ctx context.Context, a *app.App, store storage.Store, tables string) (*prometheus.Registry, error) {
	config, err := task.Maintenance(&a.Env, tables, nil)
	if err != nil {
		return nil, err
	}
	loop, registry := &maintain.Loop{Store: store, Config: config}, prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics.Maintenance(loop.Stats),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx)
	}()
	a.AtEnd(func() error { cancel(); <-done; return nil }, "maintenance")
	return registry, nil
}
