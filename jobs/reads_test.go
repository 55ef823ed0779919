package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestReads counts the statements behind the views that people look at: their number does not
// depend on the number of jobs.
func TestReads(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("reads"),
	} {
		t.Run(name, func(t *testing.T) {
			statements := 0
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Before: func(context.Context, string) { statements++ }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
			for _, many := range []int{1, 500} {
				var documents []jobs.Document
				for n := range many {
					documents = append(documents, follower(fmt.Sprint("j", n), fmt.Sprint("s", n), fmt.Sprintf("https://s%d.test:443", n)))
				}
				apply(t, s, documents...)
				id := documents[0].ID()
				for read, test := range map[string]struct {
					do   func(ctx context.Context) error
					most int
				}{
					"list":    {func(ctx context.Context) error { _, err := s.List(ctx, jobs.Filter{}); return err }, 1},
					"totals":  {func(ctx context.Context) error { _, err := s.Totals(ctx, jobs.Filter{}); return err }, 1},
					"job":     {func(ctx context.Context) error { _, err := s.Describe(ctx, id); return err }, 14},
					"logs":    {func(ctx context.Context) error { _, err := s.Logs(ctx, id, 0); return err }, 2},
					"nodes":   {func(ctx context.Context) error { _, err := s.Nodes(ctx); return err }, 3},
					"origins": {func(ctx context.Context) error { _, err := s.Origins(ctx); return err }, 1},
					"tenants": {func(ctx context.Context) error { _, err := s.Tenants(ctx); return err }, 3},
				} {
					statements = 0
					if err := test.do(jobs.Within(t.Context(), "n")); err != nil {
						t.Fatal(err)
					}
					t.Logf("%s with %d jobs: %d statements", read, many, statements)
					if statements > test.most {
						t.Errorf("%s takes %d statements with %d jobs, want at most %d", read, statements, many, test.most)
					}
				}
			}
		})
	}
}

// TestReadsInterrupted interrupts the reading of a running job before each statement.
func TestReadsInterrupted(t *testing.T) {
	t.Parallel()
	end, left := func() {}, 0
	db, err := jobdb.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobdb.Options{Before: func(context.Context, string) {
		if left--; left == 0 {
			end()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	document := follower("j", "s", "https://s.test:443")
	apply(t, s, document)
	node, err := s.Join(t.Context(), jobs.Node{Name: "a", Slots: 1})
	if err == nil {
		_, err = s.Admit(t.Context(), node, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		end, left = cancel, n
		d, err := s.Describe(ctx, document.ID())
		ended := left <= 0
		cancel()
		if !ended {
			if err != nil || d.State != jobs.Running || d.Lease == nil {
				t.Errorf("%+v, %v", d, err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended before statement %d: %v", n, err)
		}
	}
}
