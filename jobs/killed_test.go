package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// killedVariable is set in the environment of a process that is to be killed. Its value is the number of the
// generation of jobs, the quoted statement before which the process is killed, and the URL of the database,
// separated by spaces.
const killedVariable = "FEEDCTL_JOBS_TEST_KILLED"

// brief is a kind whose runs fail once and then end, or catch up.
type brief struct {
	fakeKind
	mu     sync.Mutex
	failed map[string]bool
}

func (b *brief) Run(_ context.Context, s *jobs.Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Report(jobs.Stats{Entities: 1})
	if s.Document.Name == "fails" && !b.failed[s.Document.Source] {
		b.failed[s.Document.Source] = true
		return &jobs.OriginError{Origin: "https://server.test:443", Err: errBad, Throttled: true}
	}
	return nil
}

// briefJobs returns the documents of a generation.
func briefJobs(generation int) (documents []jobs.Document) {
	for _, name := range []string{"ends", "fails", "follows", "paused"} {
		d := jobs.Document{Namespace: "n", Name: name, Kind: "brief", Source: fmt.Sprint("s", generation), Target: name, Follow: name == "follows"}
		documents = append(documents, d)
	}
	return documents
}

// live applies a generation of jobs, runs them until they end, and changes some of them in other ways. It calls the
// given function before each statement.
func live(ctx context.Context, url string, generation int, before func(context.Context, string)) (err error) {
	db, err := jobdb.Open(ctx, url, jobdb.Options{Before: before})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	settings := jobs.Defaults()
	settings.Backoff, settings.StatsInterval, settings.StartupJitter = jobs.Backoff{Min: 10 * time.Millisecond, Max: 10 * time.Millisecond}, 50*time.Millisecond, 0
	s := jobs.NewScheduler(db, jobs.Kinds{"brief": &brief{failed: map[string]bool{}}}, settings)
	if _, err := s.Apply(ctx, briefJobs(generation), jobs.ApplyOptions{}); err != nil {
		return err
	}
	if _, err := s.Pause(ctx, "n/paused"); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- s.Work(working, jobs.WorkerConfig{Name: "node", Slots: 2}) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	ended := func(ids ...string) error {
		for ticks := time.Tick(10 * time.Millisecond); ; <-ticks {
			all := true
			for _, id := range ids {
				j, err := s.Get(ctx, id)
				if err != nil {
					return err
				}
				all = all && (j.State == jobs.Completed || j.State == jobs.Idle)
			}
			if all {
				return nil
			}
		}
	}
	if err := ended("n/ends", "n/fails", "n/follows"); err != nil {
		return err
	}
	if _, err := s.Resume(ctx, "n/paused"); err != nil {
		return err
	}
	if err := s.Wake(ctx, "n/follows"); err != nil {
		return err
	}
	if _, err := s.Restart(ctx, "n/ends"); err != nil {
		return err
	}
	if err := ended("n/ends", "n/paused", "n/follows"); err != nil {
		return err
	}
	return s.Delete(ctx, "n/paused")
}

// TestKilledProcess is the process that TestKilledAnywhere kills.
func TestKilledProcess(t *testing.T) {
	text := os.Getenv(killedVariable)
	if text == "" {
		t.Skip("only TestKilledAnywhere runs this")
	}
	var generation int
	var statement, url string
	if _, err := fmt.Sscanf(text, "%d %q %s", &generation, &statement, &url); err != nil {
		t.Fatal(err)
	}
	err := live(t.Context(), url, generation, func(_ context.Context, sql string) {
		if sql == statement {
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Kill()
			}
			select {} // until the process is dead
		}
	})
	t.Fatalf("the process was not killed: %v", err)
}

// TestKilledAnywhere kills the process that uses an SQLite file before each of the statements that it
// executes, in any transaction; each process continues with the file of the previous one. No file is damaged,
// documents are applied as a whole, and at the end all jobs have run. With -short, a random quarter of the
// statements is tried, since the race detector sees the same code for most of them.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	var statements []string
	opening := 0 // statements that create the tables
	note := func(_ context.Context, sql string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(sql, "@mutex @lock") && opening == 0 {
			opening = len(statements)
		}
		if !seen[sql] {
			seen[sql] = true
			statements = append(statements, sql)
		}
	}
	if err := live(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "first.db"), 0, note); err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	killed, tried := 0, 0
	stride := size(1, 4)
	first := rand.IntN(stride)
	for n, statement := range slices.Clone(statements) {
		if n%stride != first {
			continue
		}
		tried++
		url := url
		if n < opening {
			url = "sqlite:" + filepath.Join(t.TempDir(), "new.db")
		}
		cmd := osexec.Command(os.Args[0], "-test.run=^TestKilledProcess$", "-test.timeout=20s")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", killedVariable, n, strconv.Quote(statement), url))
		out, err := cmd.CombinedOutput()
		if ended, ok := errors.AsType[*osexec.ExitError](err); ok && ended.ExitCode() == -1 {
			killed++
		} else {
			t.Logf("not killed before %q: %v\n%.300s", statement, err, out)
		}
		checkKilled(t, url, statement)
	}
	t.Logf("killed before %d of %d statements", killed, tried)
	if killed < tried*9/10 { // some statements are not executed each time
		t.Errorf("%d of %d processes were killed", killed, tried)
	}
	if err := live(t.Context(), url, len(statements), nil); err != nil {
		t.Error(err)
	}
}

// checkKilled checks a file whose process was killed.
func checkKilled(t *testing.T, url, statement string) {
	t.Helper()
	db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatalf("after %q: %v", statement, err)
	}
	l := &lostTest{t, db}
	if l.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'") != 0 {
		t.Errorf("after %q: the file is damaged", statement)
	}
	var sources []string
	err = db.View(t.Context(), func(tx jobdb.Tx) error {
		return jobdb.Each(t.Context(), tx, "SELECT DISTINCT document ->> 'source' FROM @job", nil, func(scan func(...any) error) error {
			var source string
			err := scan(&source)
			sources = append(sources, source)
			return err
		})
	})
	if err != nil || len(sources) > 1 {
		t.Errorf("after %q: documents of the generations %q, want those of one: %v", statement, sources, err)
	}
	const lost = "SELECT count(*) FROM @job WHERE (state = 'running') <> (owner IS NOT NULL) OR owner IS NOT NULL AND owner NOT IN (SELECT incarnation FROM @node)"
	if n := l.number(lost); n != 0 {
		t.Errorf("after %q: %d jobs run on no node", statement, n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
