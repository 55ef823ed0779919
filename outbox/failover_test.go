package outbox_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestFailover: the server crashes, becomes a standby and is promoted, while two runners and several
// writers are active. The feed must contain each committed event once, in order.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"database", "store"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			server := pgtest.StartOwn(t)
			w := &world{TB: t, url: server.URL("failover"), feed: testFeed}
			first, err := outbox.Create(t.Context(), w.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(first.Close)
			second, err := outbox.Create(t.Context(), w.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(second.Close)
			w.pool = w.connect(nil)
			c := outbox.Config{Store: memory.New(), Lease: time.Second}
			if place == "database" {
				c.Store, c.Local = nil, w.localStore()
			}
			runners := []*running{w.run(first, c), w.run(second, c)}
			w.exec(`CREATE TABLE journal (n bigint GENERATED ALWAYS AS IDENTITY, writer int, PRIMARY KEY (writer, n))`)
			w.writing(4, func(more func()) {
				for _, step := range []func(){func() {}, func() { server.Kill(); server.Start() }, func() { server.Demote(); server.Promote() }, server.Restart} {
					step()
					more()
				}
			})
			w.pool = w.connect(nil) // the connections of the old pool may be broken
			w.await()
			for _, r := range runners {
				r.mustStop(t)
			}
			var got []string
			if c.Local != nil {
				got = bodies(t, c.Local)
			} else {
				got = bodies(t, c.Store)
			}
			seen := map[string]string{}
			for _, body := range got {
				if writer := body[:1]; body <= seen[writer] {
					t.Errorf("%s comes after %s", body, seen[writer])
				} else {
					seen[writer] = body
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(get[[]string](w, `SELECT array_agg(writer || ' ' || lpad(n::text, 9, '0') ORDER BY writer, n) FROM journal`), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// writing calls f while writers run. The writers record their events in a journal, and do not retry.
// The argument of f is a function that waits until the journal has more events.
func (w *world) writing(writers int, f func(more func())) {
	ctx, stop := context.WithCancel(w.Context())
	var wg sync.WaitGroup
	written := make(chan struct{})
	for writer := range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := w.pool.Exec(w.Context(), `WITH noted AS (INSERT INTO journal (writer) VALUES ($1) RETURNING n)
					SELECT feedctl.publish($2, $1::text, 'PUT', $1 || ' ' || lpad(n::text, 9, '0')) FROM noted`, writer, testFeed)
				if err == nil {
					select {
					case written <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	f(func() {
		for range 50 {
			<-written
		}
	})
	stop()
	wg.Wait()
}
