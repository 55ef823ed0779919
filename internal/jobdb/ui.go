package jobdb

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"riverqueue.com/riverui"
)

// newUI returns a handler that serves River's pages about runs below a path. Until ctx ends, the counts of runs
// on these pages are kept up to date.
func newUI[TTx any](ctx context.Context, d riverdriver.Driver[TTx], schema, prefix string) (http.Handler, error) {
	log := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(newLocal(d), &river.Config{Logger: log, Schema: schema})
	if err != nil {
		return nil, err
	}
	h, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: log, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return h, h.Start(ctx)
}
