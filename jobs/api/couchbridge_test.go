package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/jobs/kinds"
)

// TestCouchBridge: the views show what a run of a bridge has reported.
func TestCouchBridge(t *testing.T) {
	t.Parallel()
	dir, db := t.TempDir(), couchtest.NewFake(t).NewDB(t)
	for n := range 3 {
		couchtest.Send(t, http.MethodPut, fmt.Sprint(db, "/doc", n), `{}`)
	}
	s := &site{}
	var err error
	s.Scheduler, err = jobs.Open(t.Context(), "sqlite::memory:", kinds.All(), jobs.Defaults())
	check(t, err)
	s.handler, err = api.New(s.Scheduler, api.Config{Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
	t.Cleanup(func() {
		stop()
		check(t, <-done)
		check(t, s.Close())
	})
	ticks := time.Tick(20 * time.Millisecond)
	for nodes, err := s.Nodes(t.Context()); len(nodes) == 0; nodes, err = s.Nodes(t.Context()) {
		check(t, err)
		<-ticks
	}
	d := jobs.Document{Namespace: "shop", Name: "docs", Kind: "bridge couchdb", Source: db, Target: "file:" + filepath.Join(dir, "store") + "#docs", Placement: jobs.Placement{Node: "node"}, Options: map[string]jobs.Values{"index": {filepath.Join(dir, "index")}}}
	_, err = s.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{})
	check(t, err)
	for {
		j, err := s.Get(t.Context(), "shop/docs")
		check(t, err)
		if j.Errors > 0 {
			t.Fatal(j.Reason)
		}
		if j.State == jobs.Completed {
			break
		}
		<-ticks
	}
	info := at(s.want(t, 200, "GET", "/_scheduler/docs/shop/_replicator/docs", ""), "info")
	for _, name := range []string{"checkpointed_source_seq", "through_seq", "source_seq"} {
		if seq, ok := at(info, name).(string); !ok || seq == "" || seq != at(info, "source_seq") {
			t.Errorf("%s is %v in %v", name, at(info, name), info)
		}
	}
	if at(info, "docs_written") != 3.0 || at(info, "changes_pending") != 0.0 {
		t.Errorf("info: %v", info)
	}
}
