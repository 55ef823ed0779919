package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestOutboxLag: metrics and status show the rows in the outbox, their age, and the oldest
// transaction that keeps rows from being moved.
func TestOutboxLag(t *testing.T) {
	database, exec := shop(t)
	db, err := outbox.Create(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	a := app.New(app.Streams{Out: io.Discard, Err: io.Discard})
	group := outbox.NewGroup(db, outbox.Config{Store: memory.New()}, true)
	handler := a.Metrics(metrics.Outbox(func() (*outbox.DB, *outbox.Group) { return db, group }))
	scrape := func(wants ...string) {
		t.Helper()
		body := ""
		for !strings.Contains(body, "\nfeedctl_outbox_oldest_transaction_seconds ") { // the database may be slower than the timeout of a scrape
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			body = w.Body.String()
		}
		for _, want := range wants {
			if !regexp.MustCompile("(?m)^feedctl_outbox_" + want + "$").MatchString(body) {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
	}
	status := func(want string) {
		t.Helper()
		if code, got, stderr := feedctl(t, "", "outbox", "status", "--db", database); code != exit.OK || !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("status without %q: exit status %d\n%s%s", want, code, got, stderr)
		}
	}
	exec(`SELECT feedctl.publish('orders', '1', 'PUT', 'abc'), feedctl.publish('orders', '2', 'PUT', 'de');
		INSERT INTO feedctl.outbox_quarantine (feed, id, reason) VALUES ('bad', 1, 'why')`)
	open, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(t.Context())
	if _, err := open.Exec(t.Context(), `BEGIN; SELECT feedctl.publish('orders', '3'), pg_sleep(1.01)`); err != nil {
		t.Fatal(err)
	}
	scrape(`waiting_rows{feed="orders"} 2`, `waiting_bytes{feed="orders"} 5`, `lag_seconds{feed="orders"} [1-9][0-9.]*`,
		`quarantined_rows{feed="bad"} 1`, `oldest_transaction_seconds [1-9][0-9.]*`)
	status(`(?s)orders +2 +5 B +[1-9].*open for [1-9].*idle in transaction`)
	if got := completed(t, "outbox", "run", "--db", database, "--feed", ""); got != "bad orders" {
		t.Errorf("completion offers %q", got)
	}
	if err := group.RunAll(t.Context()); err != nil {
		t.Error(err)
	}
	scrape(`waiting_rows{feed="orders"} 0`, `last_move_timestamp_seconds{feed="orders"} 1[0-9.e+]*`, `lag_seconds{feed="orders"} 0`, `oldest_transaction_seconds [1-9][0-9.]*`)
	if err := open.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for status := (outbox.Status{Transaction: &outbox.Transaction{}}); status.Transaction != nil; { // the server may not have noticed the end yet
		if status, err = db.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	scrape(`oldest_transaction_seconds 0`)
	db.Close() // a scrape shows that the database does not respond
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if strings.Contains(w.Body.String(), "feedctl_outbox_waiting_rows") {
		t.Errorf("metrics of an unreachable database:\n%s", w.Body)
	}
}
