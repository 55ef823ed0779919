package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestLogs: two runs log more lines than are kept.
func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		runs := 0
		kind := reporting{run: func(_ context.Context, s *jobs.Session) error {
			runs++
			s.Logger.Info("not kept")
			for n := range 150 {
				s.Logger.Warn("warning", "n", n, slog.Group("g", "inner", "x"))
			}
			s.Logger.With("a", 1).WithGroup("h").Error("last\x00", "run", runs, "error", errors.New("cause"))
			if runs == 1 {
				return errors.New("crashed")
			}
			return nil
		}}
		store := inBubble(t, jobs.Kinds{"fake": kind})
		apply(t, store, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "s"})
		done := make(chan error)
		go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
		for state := jobs.Pending; state != jobs.Completed; {
			time.Sleep(time.Second)
			j, err := store.Get(ctx, "n/job")
			if err != nil {
				t.Fatal(err)
			}
			state = j.State
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		lines, err := store.Logs(t.Context(), "n/job", 0)
		if err != nil || len(lines) != 200 || lines[0].Number != 103 || lines[199].Number != 302 {
			t.Fatalf("%d lines are kept, want 103 to 302: %v", len(lines), err)
		}
		first, last := lines[0], lines[199]
		if first.Level != "WARN" || first.Message != "warning" || first.Attrs["n"] != "102" || first.Attrs["g.inner"] != "x" {
			t.Errorf("the first line is %+v", first)
		}
		if last.Level != "ERROR" || last.Message != "last�" || last.Run != first.Run+1 || last.Node != "node" ||
			fmt.Sprint(last.Attrs) != "map[a:1 h.error:cause h.run:2]" {
			t.Errorf("the last line is %+v", last)
		}
		if lines, err := store.Logs(t.Context(), "n/job", 300); err != nil || len(lines) != 2 {
			t.Errorf("after line 300 there are %d lines: %v", len(lines), err)
		}
		if _, err := store.Logs(t.Context(), "n/none", 0); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("logs of a job that does not exist: %v", err)
		}
		if err := store.Delete(t.Context(), "n/job"); err != nil {
			t.Fatal(err)
		}
		apply(t, store, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: strings.Repeat("s", 2)})
		if lines, err := store.Logs(t.Context(), "n/job", 0); err != nil || len(lines) != 0 {
			t.Errorf("the log of a deleted job has %d lines: %v", len(lines), err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
