package main

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/storage"
)

// startMaintenance maintains the feeds of a store until the end of the command. It registers the
// metrics, and makes /readyz report failures.
func (f *serveFlags) startMaintenance(ctx context.Context, a *app.App, store storage.Store) error {
	config, err := task.Maintenance(&a.Env, f.tables, nil)
	if err != nil {
		return err
	}
	loop := &maintain.Loop{Store: store, Config: config}
	f.Registry.MustRegister(metrics.Maintenance(loop.Stats))
	f.Checks = map[string]func(context.Context) error{"maintenance": func(context.Context) error {
		if n := loop.Stats().Failing; n > 0 {
			return fmt.Errorf("%d retention policies could not be carried out in the last round; see the log of the server", n)
		}
		return nil
	}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx)
	}()
	a.AtEnd(func() error { cancel(); <-done; return nil }, "maintenance")
	return nil
}
