package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestMigrate opens databases, with jobs in all states, that were written by a program with version 1 of the tables,
// and runs the jobs.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("migrate"),
	} {
		t.Run(name, func(t *testing.T) {
			execFile(t, url, "testdata/version1.sql")
			if s, err := jobs.OpenExisting(t.Context(), url, fakeKinds, jobs.Defaults()); !errors.Is(err, jobs.ErrOld) {
				t.Fatalf("a program that does not migrate opens old tables: %v, %v", s, err)
			}
			s, err := jobs.Open(t.Context(), url, fakeKinds, jobs.Defaults())
			if err != nil {
				t.Fatal(err)
			}
			page, err := s.List(t.Context(), jobs.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for n := range page.Jobs {
				if j := &page.Jobs[n]; string(j.State) != j.Document.Name {
					t.Errorf("job %s is %s", j.Document.Name, j.State)
				}
			}
			if stats, err := s.Stats(t.Context(), "shop/idle"); err != nil || stats == nil || stats.Position != "7" {
				t.Errorf("the statistics are %+v, %v", stats, err)
			}
			if settings, err := s.Settings(t.Context()); err != nil || settings.MaxChurn != 7 {
				t.Errorf("max-churn is %d, %v", settings.MaxChurn, err)
			}
			apply(t, s, jobs.Document{Namespace: "shop", Name: "new", Kind: "fake", Source: "s-new", Follow: true, Metrics: true})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			o := &counting{Observer: jobs.NoObserver, ended: make(chan string, 100)}
			go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "new", Slots: 1, Observer: o}) }()
			ran := map[string]bool{}
			for len(ran) < 3 { // the job that was running is adopted one lease after the start
				ran[<-o.ended] = true
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if want := map[string]bool{"shop/pending": true, "shop/crashing": true, "shop/new": true}; name == "postgres" && !maps.Equal(ran, want) {
				t.Errorf("jobs %v ran, want %v", ran, want)
			}
			for id := range ran {
				if j, err := s.Get(t.Context(), id); err != nil || j.State != jobs.Idle {
					t.Errorf("job %s is %s after its run: %v", id, j.State, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// counting is an observer that sends the IDs of jobs whose runs have ended.
type counting struct {
	jobs.Observer
	ended chan string
}

func (c *counting) Ended(d *jobs.Document, _ string) { c.ended <- d.ID() }

// execFile executes the statements of a file in an empty database.
func execFile(t *testing.T, url, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(string(text), "@", "")); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA feedctl_jobs;"+strings.ReplaceAll(string(text), "@", "feedctl_jobs.")); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestMigrateExtended opens tables that have all columns of version 2, but claim to have version 1: some
// programs have made such tables.
func TestMigrateExtended(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("extended"),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d := follower("a", "s", "t")
			d.Metrics = true
			apply(t, jobs.NewScheduler(db, fakeKinds, jobs.Defaults()), d)
			exec(t, db, "UPDATE @version SET version = 1")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, err := jobs.Open(t.Context(), url, fakeKinds, jobs.Defaults())
				if err != nil {
					t.Fatal(err)
				}
				lags, all, err := s.Lags(t.Context(), 1)
				if err != nil || all != 1 || len(lags) != 1 {
					t.Error(fmt.Errorf("%d jobs with metrics, %w", all, err))
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
