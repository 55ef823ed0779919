package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/postgres"
)

var outboxKills = flag.Int("outbox-kills", 6, "runners that TestOutboxIsKilled kills for each kind of store")

// TestOutboxIsKilled kills the active runner of the outbox repeatedly while several writers publish. The feed must have
// each committed event once, and each writer's events in order.
func TestOutboxIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, place := range []string{"database", "file"} {
		t.Run(place, func(t *testing.T) {
			db := server.URL("killed_" + place)
			run := []string{"outbox", "run", "--db", db, "--feed", "things"}
			store := db
			if place == "file" {
				store = "file:" + filepath.Join(t.TempDir(), "store")
				run = append(run, "--store", store)
			}
			mustRun(t, "init", db)
			r := newOutboxRig(t, db, store, run)
			want := writeAll(t, r.pool, func() {
				for range *outboxKills {
					r.killWorking()
				}
			})
			for _, p := range r.runners {
				p.kill(os.Kill)
			}
			mustRun(t, append(run, "--once")...)
			if diff := cmp.Diff(want, readOutboxFeed(t, r.pages)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An outboxRig holds two runners of one outbox, one of which is active.
type outboxRig struct {
	t       *testing.T
	rng     *rand.Rand
	pool    *pgxpool.Pool
	pages   *chain.Reader
	runners []*process
}

func newOutboxRig(t *testing.T, db, storeURL string, run []string) *outboxRig {
	pool, err := pgxpool.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := storage.Registry{"file": file.Create, "postgres": postgres.Create}.Open(t.Context(), storeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := &outboxRig{t: t, rng: rand.New(rand.NewPCG(newSeed(t), 0)), pool: pool, pages: chain.NewReader(store, "things")}
	for n := range 2 {
		p := &process{t: t, name: fmt.Sprint("runner ", n), args: run}
		p.start()
		t.Cleanup(func() { p.kill(os.Kill) })
		r.runners = append(r.runners, p)
	}
	return r
}

// moved returns the progress of the feed, as a number that grows.
func (r *outboxRig) moved() int64 {
	newest, err := r.pages.Newest(r.t.Context())
	if errors.Is(err, chain.ErrNoFeed) {
		return 0
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return newest.Number<<32 + int64(newest.Entities)
}

func (r *outboxRig) state() (text string) {
	for _, p := range r.runners {
		text += fmt.Sprintf("\n%s, ended %v:\n%s", p.name, p.ended(), p.stderr)
	}
	return text
}

// killWorking kills the active runner, some time after it has moved events, and restarts
// it. killWorking also ends the lease of the killed runner, so that either of the two can take over.
func (r *outboxRig) killWorking() {
	before := r.moved()
	waitFor(r.t, r.state, func() bool {
		if slices.ContainsFunc(r.runners, (*process).ended) {
			r.t.Fatalf("a runner exited before it was killed: %s", r.state())
		}
		return r.moved() > before
	})
	for range r.rng.IntN(20) {
		r.moved()
	}
	var holder string                   // HOST/PID/RANDOM
	waitFor(r.t, r.state, func() bool { // the runner that was killed before may have moved these events
		err := r.pool.QueryRow(r.t.Context(), "SELECT runner FROM feedctl.outbox_lease WHERE feed = 'things'").Scan(&holder)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			r.t.Fatal(err)
		}
		return err == nil
	})
	n := slices.IndexFunc(r.runners, func(p *process) bool {
		return strings.Contains(holder, fmt.Sprintf("/%d/", p.cmd.Process.Pid))
	})
	if n < 0 || r.runners[n].ended() {
		r.t.Fatalf("the lease is held by %s, which is no running process of the test%s", holder, r.state())
	}
	r.runners[n].kill(os.Kill)
	if _, err := r.pool.Exec(r.t.Context(), "DELETE FROM feedctl.outbox_lease WHERE runner = $1", holder); err != nil {
		r.t.Fatal(err)
	}
	r.runners[n].start()
}

// writeAll publishes from several writers while f runs, and returns the number of events of each writer.
func writeAll(t *testing.T, pool *pgxpool.Pool, f func()) map[string]int {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	published := make([]int, 4)
	var wg sync.WaitGroup
	for writer := range published {
		wg.Go(func() {
			for ctx.Err() == nil {
				tx, err := pool.Begin(t.Context())
				for n := 0; err == nil && n < 3; n++ {
					_, err = tx.Exec(t.Context(), "SELECT feedctl.publish('things', $1, 'PUT', $2::text)", fmt.Sprint(writer), fmt.Sprint(published[writer]+n))
				}
				if err == nil {
					err = tx.Commit(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				published[writer] += 3
			}
		})
	}
	func() {
		defer wg.Wait()
		defer stop() // even if f fails
		f()
	}()
	want := map[string]int{}
	for writer, n := range published {
		want[fmt.Sprint(writer)] = n
	}
	return want
}

func mustRun(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("feedctl %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// readOutboxFeed returns the number of events of each writer in the feed, which must be in
// order.
func readOutboxFeed(t *testing.T, pages *chain.Reader) map[string]int {
	t.Helper()
	newest, err := pages.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for n := int64(1); n <= newest.Number; n++ {
		p, object, err := pages.Open(t.Context(), n, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		for part, err := range page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{}).Parts() {
			if err != nil {
				t.Fatal(err)
			}
			writer := string(part.Header.Get("Content-Location"))
			if string(part.Body) != fmt.Sprint(got[writer]) {
				t.Fatalf("page %d: event %s of writer %s, want %d", n, part.Body, writer, got[writer])
			}
			got[writer]++
		}
		if err := object.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return got
}
