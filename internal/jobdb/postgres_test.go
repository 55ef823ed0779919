package jobdb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// TestSettingsEndWithTransactions: if this program shares connections of PgBouncer with another program,
// the limit for idle transactions is set in each transaction of this program, and nowhere else.
func TestSettingsEndWithTransactions(t *testing.T) {
	t.Parallel()
	url := pgtest.PgBouncer(t, pgtest.Start(t), "bouncer")
	db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const setting = "SELECT current_setting('idle_in_transaction_session_timeout')"
	for range 3 {
		for _, begin := range []func(context.Context, func(jobdb.Tx) error) error{db.Begin, db.View} {
			limit := ""
			err := begin(t.Context(), func(tx jobdb.Tx) error {
				_, err := jobdb.One(t.Context(), tx, setting, nil, &limit)
				return err
			})
			if err != nil || limit != "5s" {
				t.Errorf("in a transaction the limit is %q, %v", limit, err)
			}
		}
		other, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		limit := ""
		if err := other.QueryRow(t.Context(), setting, pgx.QueryExecModeSimpleProtocol).Scan(&limit); err != nil || limit != "0" {
			t.Errorf("another program has the limit %q, %v", limit, err)
		}
		defer other.Close(context.Background())
		if _, err := other.Exec(t.Context(), "BEGIN"); err != nil { // keeps a connection of the pool
			t.Fatal(err)
		}
	}
}

// TestSmallPool: a database whose URL allows only one connection can be opened, although the migration
// of the queue needs two.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	db, err := jobdb.Open(ctx, withParameter(pgtest.Start(t).URL("small"), "pool_max_conns=1"), jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOwnSchema: a user who may not create schemas can open a database if the schema exists.
func TestOwnSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("own")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{
		"DROP ROLE IF EXISTS jobs_user",
		"CREATE ROLE jobs_user LOGIN",
		"CREATE SCHEMA feedctl_jobs AUTHORIZATION jobs_user",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	db, err := jobdb.Open(t.Context(), withParameter(url, "user=jobs_user"), jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func withParameter(url, parameter string) string {
	if strings.Contains(url, "?") {
		return url + "&" + parameter
	}
	return url + "?" + parameter
}
