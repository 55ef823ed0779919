package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestDeletedBeforeLock deletes a job after a change to it has been compared with what is stored, and
// before the job is locked: a change that is only for that version does not create the job again.
func TestDeletedBeforeLock(t *testing.T) {
	t.Parallel()
	var s *jobs.Scheduler
	armed := false
	db, err := jobdb.Open(t.Context(), pgtest.Start(t).URL("deleted"), jobdb.Options{Before: func(ctx context.Context, sql string) {
		if armed && strings.Contains(sql, "ORDER BY id @lock") {
			armed = false
			if err := s.Delete(ctx, "n/x"); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s = jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	d := jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "a"}
	apply(t, s, d)
	j, err := s.Get(t.Context(), "n/x")
	if err != nil {
		t.Fatal(err)
	}
	d.Source, armed = "b", true
	_, err = s.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{If: func(_, version string) bool { return version == j.Version() }})
	if armed || !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("apply: %v, want a conflict", err)
	}
	if _, err := s.Get(t.Context(), "n/x"); !errors.Is(err, jobs.ErrNoJob) {
		t.Errorf("the job: %v, want none", err)
	}
}

// TestStatsOfDeleted writes the statistics of a run while its job is being deleted: a job that is
// created later with the same name does not have these statistics.
func TestStatsOfDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("stats_of_deleted")
	db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	d := jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "a"}
	apply(t, s, d)
	node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 10})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Admit(t.Context(), node, 1)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if err := jobs.Report(t.Context(), s, runs[0], jobs.Stats{Entities: 1}); err != nil {
		t.Fatal(err)
	}
	deleting, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer deleting.Close(context.Background())
	for _, sql := range []string{"BEGIN", "DELETE FROM feedctl_jobs.job", "DELETE FROM feedctl_jobs.event", "DELETE FROM feedctl_jobs.stats"} {
		if _, err := deleting.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	reported := make(chan error)
	go func() { reported <- jobs.Report(t.Context(), s, runs[0], jobs.Stats{Entities: 777}) }()
	awaitLock(t, url)
	if _, err := deleting.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-reported; err != nil {
		t.Error(err)
	}
	apply(t, s, d)
	if stats, err := s.Stats(t.Context(), "n/x"); stats != nil || err != nil {
		t.Errorf("the new job has the statistics %+v, %v", stats, err)
	}
}

// awaitLock waits until a statement waits for a lock.
func awaitLock(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for waiting, ticks := 0, time.Tick(10*time.Millisecond); waiting == 0; <-ticks {
		const locks = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()"
		if err := conn.QueryRow(t.Context(), locks).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}
