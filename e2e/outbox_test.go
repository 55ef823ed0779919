package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/postgres"
)

// TestOutboxIsKilled kills runners of the outbox at random times, while many write.
// The feed has what was committed, once, and each writer's events in order.
func TestOutboxIsKilled(t *testing.T) {
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
			// It makes the tables.
			mustRun(t, "outbox", "status", "--db", db)
			pool, err := pgxpool.New(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			runners := []*process{{t: t, name: "runner 1", args: run}, {t: t, name: "runner 2", args: run}}
			for _, r := range runners {
				r.start()
			}
			want := writeAll(t, pool, func(rng *rand.Rand) {
				for n := range 12 {
					time.Sleep(time.Duration(20+rng.IntN(300)) * time.Millisecond)
					r := runners[n%2]
					r.kill(os.Kill)
					r.start()
				}
			})
			for _, r := range runners {
				r.kill(os.Kill)
			}
			mustRun(t, append(run, "--once")...)
			if diff := cmp.Diff(want, readOutboxFeed(t, store)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// writeAll publishes from several writers while f runs, and returns how many events
// each has published.
func writeAll(t *testing.T, pool *pgxpool.Pool, f func(*rand.Rand)) map[string]int {
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
	f(rand.New(rand.NewPCG(1, 2)))
	stop()
	wg.Wait()
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

// readOutboxFeed returns how many events of each writer are in the feed, which must
// be in order.
func readOutboxFeed(t *testing.T, storeURL string) map[string]int {
	t.Helper()
	store, err := storage.Registry{"file": file.Open, "postgres": postgres.Open}.Open(t.Context(), storeURL)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pages := chain.NewReader(store, "things")
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
