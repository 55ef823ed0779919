package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
)

// A row is moved as soon as it is visible: after a gap in the ids, while a transaction is open, and
// after rows with greater ids.
func TestNothingIsWaitedFor(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		elsewhere := w.begin() // a transaction that has an xid and a snapshot, but no rows in the outbox
		w.in(elsewhere, "CREATE TABLE elsewhere ()")
		rolledBack := w.begin()
		w.in(rolledBack, "SELECT feedctl.publish('things', 'k', 'PUT', 'rolled back')")
		if err := rolledBack.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		long := w.begin()
		w.in(long, "SELECT feedctl.publish('things', 'k', 'PUT', 'long 1')")
		w.in(long, "SAVEPOINT a")
		w.in(long, "SELECT feedctl.publish('things', 'k', 'PUT', 'long, rolled back')")
		w.in(long, "ROLLBACK TO a")
		w.publish("1", "2")
		r := w.run(w.db, c)
		w.await()
		w.in(long, "SELECT feedctl.publish('things', 'k', 'PUT', 'long 2')")
		w.publish("3")
		w.await()
		w.in(long, "PREPARE TRANSACTION 'prepared'")
		w.publish("4")
		w.await()
		w.exec("COMMIT PREPARED 'prepared'")
		w.await()
		w.publish("5")
		w.await()
		r.mustStop(t)
		if diff := cmp.Diff([]string{"1", "2", "3", "4", "long 1", "long 2", "5"}, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOrder runs many writers that change a few rows, and publish an event with the row's counter
// for each change. Transactions make several changes; some are rolled back, completely or in part,
// and some stay open for a long time. The feed must have each row's counters in order without gaps,
// and each transaction's events in order. If a writer publishes events after it has seen a
// committed event, these must come after that event in the feed.
func TestOrder(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.exec("CREATE TABLE counters AS SELECT n AS id, 0 AS count FROM generate_series(0, 4) n")
		w.exec("CREATE TABLE causes (writer int, event text)")
		c.MaxRows, c.Producer.MaxPageEntities = 7, 20
		r := w.run(w.db, c)
		long := w.begin()
		w.in(long, "SELECT feedctl.publish('things', 'k', 'PUT', 'long')")
		var wg sync.WaitGroup
		for n := range 12 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), 1))
				for i := range 12 {
					if err := w.change(t.Context(), rng, fmt.Sprintf("%d.%d", n, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		w.commit(long)
		w.await()
		r.mustStop(t)
		checkOrder(t, w, bodies(t, store))
	})
}

// change changes some rows in one transaction. The body of each event is "transaction row counter
// cause", where cause is an event of a committed transaction that the writer has seen.
func (w *world) change(ctx context.Context, rng *rand.Rand, name string) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	cause := "-"
	if err := tx.QueryRow(ctx, "SELECT coalesce((SELECT event FROM causes ORDER BY random() LIMIT 1), '-')").Scan(&cause); err != nil {
		return err
	}
	row, last := rng.IntN(3), ""
	for range 1 + rng.IntN(3) { // in the order of the rows, to avoid deadlocks
		savepoint := rng.IntN(4) == 0
		if savepoint {
			if _, err := tx.Exec(ctx, "SAVEPOINT s"); err != nil {
				return err
			}
		}
		var count int
		if err := tx.QueryRow(ctx, "UPDATE counters SET count = count + 1 WHERE id = $1 RETURNING count", row).Scan(&count); err != nil {
			return err
		}
		event := fmt.Sprintf("%s %d %d", name, row, count)
		if _, err := tx.Exec(ctx, "SELECT feedctl.publish('things', $1, 'PUT', $2::text)", fmt.Sprint(row), event+" "+cause); err != nil {
			return err
		}
		if savepoint {
			if _, err := tx.Exec(ctx, "ROLLBACK TO s"); err != nil {
				return err
			}
			continue
		}
		last = event
		if row++; row == 5 {
			break
		}
	}
	if rng.IntN(4) == 0 {
		return tx.Rollback(ctx)
	}
	if last != "" {
		if _, err := tx.Exec(ctx, "INSERT INTO causes (event) VALUES ($1)", last); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func checkOrder(t *testing.T, w *world, events []string) {
	t.Helper()
	counts := map[string]int{}
	place := map[string]int{}
	lastRow := map[string]string{}
	for n, body := range events {
		if body == "long" {
			continue
		}
		f := strings.Fields(body)
		transaction, row, count, cause := f[0], f[1], f[2], strings.Join(f[3:], " ")
		counts[row]++
		if count != fmt.Sprint(counts[row]) {
			t.Fatalf("event %d, %q: want the counter %d", n, body, counts[row])
		}
		if row < lastRow[transaction] {
			t.Fatalf("event %d, %q: the transaction has published about row %s before", n, body, lastRow[transaction])
		}
		lastRow[transaction] = row
		if _, ok := place[cause]; cause != "-" && !ok {
			t.Fatalf("event %d, %q: comes before its cause", n, body)
		}
		place[strings.Join(f[:3], " ")] = n
	}
	for row := range 5 {
		if want := get[int](w, "SELECT count FROM counters WHERE id = $1", row); counts[fmt.Sprint(row)] != want {
			t.Errorf("row %d has %d events, want %d", row, counts[fmt.Sprint(row)], want)
		}
	}
	if len(events) < 50 {
		t.Errorf("only %d events", len(events))
	}
}

// Several concurrent runners, some of which keep losing their leases, do not lose, repeat or
// reorder events.
func TestManyRunners(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		c.MaxRows = 5
		c.Lease = 100 * time.Millisecond
		var runners []*running
		for range 3 {
			runners = append(runners, w.run(w.db, c))
		}
		var want []string
		for n := range 100 {
			// Insert more rows than a batch holds, so that the next batch is read ahead.
			w.exec(`INSERT INTO feedctl.outbox (feed, body) SELECT 'things', convert_to(concat($1::int, '.', n), 'UTF8') FROM generate_series(1, $2) n`, n, 1+n%12)
			w.exec("DELETE FROM feedctl.outbox_lease") // the active runner does not notice at once that its lease is gone
			for i := range 1 + n%12 {
				want = append(want, fmt.Sprint(n, ".", i+1))
			}
		}
		w.await()
		for _, r := range runners {
			if err := r.stop(); err != nil && !errors.Is(err, outbox.ErrForeign) {
				t.Error(err)
			} else if err != nil {
				t.Errorf("a runner treats another's checkpoint as foreign: %v", err)
			}
		}
		if diff := cmp.Diff(want, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}
