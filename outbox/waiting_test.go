package outbox_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// statements records the statements that are executed.
type statements struct {
	mu  sync.Mutex // a runner uses two connections
	sql []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, data.SQL)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestWaiting: the feeds with committed rows are found with one statement that reads few of them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := &statements{}
	db := outbox.Use(w.connect(sent), "feedctl")
	check := func(want map[string]int64) {
		t.Helper()
		sent.sql = nil
		got, err := db.Waiting(t.Context())
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("feeds %v, %v, want %v", got, err, want)
		}
		if n := len(sent.sql); n != 1 {
			t.Errorf("%d statements: %q", n, sent.sql)
		}
	}
	check(map[string]int64{})
	w.exec("INSERT INTO feedctl.outbox (feed) SELECT 'a-' || n % 3 FROM generate_series(1, 20000) AS n")
	check(map[string]int64{"a-0": 19998, "a-1": 19999, "a-2": 20000})
	rows, err := w.pool.Query(t.Context(), "EXPLAIN "+sent.sql[0])
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if plan := strings.Join(lines, "\n"); err != nil || strings.Contains(plan, "Seq Scan on outbox") || !strings.Contains(plan, "Index") {
		t.Errorf("plan:\n%s, %v", plan, err)
	}
	tx, err := w.pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "INSERT INTO feedctl.outbox (feed) VALUES ('b')")
	}
	if err != nil {
		t.Fatal(err)
	}
	check(map[string]int64{"a-0": 19998, "a-1": 19999, "a-2": 20000})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(map[string]int64{"a-0": 19998, "a-1": 19999, "a-2": 20000, "b": 20001})
	for n := range 3 {
		if _, err := drain(t.Context(), db, outbox.Config{Feed: fmt.Sprint("a-", n), Store: memory.New()}); err != nil {
			t.Fatal(err)
		}
	}
	check(map[string]int64{"b": 20001})
}
