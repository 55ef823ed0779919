package jobscmd_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestReaders: commands that only read create nothing, and require no other right than SELECT.
func TestReaders(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	postgres := pgtest.Start(t).URL("readers")
	readers := [][]string{
		{"list"}, {"describe", "shop/orders"}, {"history", "shop/orders"}, {"position", "shop/orders"}, {"logs", "shop/orders"}, {"export"},
		{"nodes"}, {"origins"}, {"tenants"}, {"settings"},
	}
	writers := [][]string{
		{"pause", "shop/prices"}, {"resume", "shop/prices"}, {"restart", "shop/prices"}, {"delete", "shop/prices"}, {"run", "fake", "x", "--detach"},
		{"settings", "max-jobs=7"}, {"tenants", "--set-shares", "shop=7"},
	}
	on := func(db string, args []string) []string { return append(append([]string{"jobs"}, args...), "--db", db) }
	for _, db := range []string{"sqlite:jobs.db", postgres} {
		for _, args := range append(readers, writers...) {
			m.fails(3, on(db, args), "open database of jobs: no jobs database at "+db[:6], `Try: "feedctl jobs apply -f FILE"`)
		}
		m.run(0, "__complete", "jobs", "describe", "--db", db, "")
		m.prints("+ shop/orders: fake https://db.test:443 t\n+ shop/prices: other y\n2 jobs would be created, 0 changed, 0 deleted; 0 unchanged\n",
			on(db, []string{"apply", "-f", "jobs.yaml", "--dry-run"})...)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, want one file; error %v", entries, err)
	}
	conn, err := pgx.Connect(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var schemas int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'feedctl_jobs'").Scan(&schemas); err != nil || schemas > 0 {
		t.Errorf("%d schemas, %v", schemas, err)
	}

	m.run(0, on(postgres, []string{"apply", "-f", "jobs.yaml"})...)
	for _, sql := range []string{
		"CREATE ROLE jobs_reader LOGIN PASSWORD 'reader'", "GRANT USAGE ON SCHEMA feedctl_jobs TO jobs_reader", "GRANT SELECT ON ALL TABLES IN SCHEMA feedctl_jobs TO jobs_reader",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	as, err := url.Parse(postgres)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("jobs_reader", "reader")
	for _, args := range readers {
		m.run(0, on(as.String(), args)...)
	}
	m.prints("0 jobs would be created, 0 changed, 0 deleted; 2 unchanged\n", on(as.String(), []string{"apply", "-f", "jobs.yaml", "--dry-run"})...)
	for _, args := range writers {
		m.fails(1, on(as.String(), args), "permission denied")
	}
	if out, _ := m.run(0, "__complete", "jobs", "describe", "--db", as.String(), "shop/o"); !strings.Contains(out, "shop/orders") {
		t.Error(out)
	}
	for column, want := range map[string]string{"nodes": "none\n", "list": "2 jobs: 2 pending\n"} {
		if out, _ := m.run(0, on(as.String(), []string{column})...); !strings.HasPrefix(out, want) {
			t.Error(fmt.Sprint(column, out))
		}
	}
}
