package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// urlVariable passes the URL of the server to child processes.
const urlVariable = "FEEDCTL_SINK_POSTGRES_TEST_URL"

// server returns the URL of a database; a child process uses its parent's database.
func server(t *testing.T, through func(*pgtest.TestServer) string) string {
	t.Helper()
	if url := os.Getenv(urlVariable); url != "" {
		return url
	}
	url := through(pgtest.Start(t))
	t.Setenv(urlVariable, url)
	return url
}

func direct(s *pgtest.TestServer) string { return s.URL("a") }

func TestConformance(t *testing.T) {
	sinktest.Run(t, options(t, server(t, direct)))
}

func TestConformancePgBouncer(t *testing.T) {
	sinktest.Run(t, options(t, server(t, func(s *pgtest.TestServer) string { return pgtest.PgBouncer(t, s, "a") })))
}

// options returns options with a separate table for each directory.
func options(t *testing.T, url string) sinktest.Options {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	reader, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	table := func(dir string) string { return fmt.Sprintf("t_%x", sha256.Sum256([]byte(dir)))[:32] }
	return sinktest.Options{
		Open: func(ctx context.Context, dir string) (consumer.Sink, error) {
			return asSink(postgres.Open(ctx, url, postgres.Options{Table: table(dir)}))
		},
		OpenFaulty: func(ctx context.Context, dir string, before func() error) (consumer.Sink, error) {
			return asSink(postgres.OpenFaulty(ctx, url, postgres.Options{Table: table(dir)}, before))
		},
		Kills: 20, // each of two tests kills this number of processes
		Read:  func(dir string) ([]sinktest.Record, error) { return readTable(reader, table(dir)) },
	}
}

func asSink(s *postgres.Sink, err error) (consumer.Sink, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func readTable(reader *pgxpool.Pool, table string) (records []sinktest.Record, err error) {
	rows, err := reader.Query(context.Background(), "SELECT key, content_type, coalesce(convert_to(body::text, 'UTF8'), bytes), last_modified, content_id, headers::text FROM "+pgx.Identifier{table}.Sanitize())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sinktest.Record, err error) {
		var headers []byte
		err = row.Scan(&r.Key, &r.ContentType, &r.Body, &r.LastModified, &r.ContentID, &headers)
		r.Key, r.LastModified = unescape(r.Key), r.LastModified.UTC()
		return r, errors.Join(err, json.Unmarshal(headers, &r.Header))
	})
}

// unescape decodes text as the package documentation describes.
func unescape(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == 0x1a {
			fmt.Sscanf(s[i+1:i+3], "%02x", &c)
			i += 2
		}
		b = append(b, c)
	}
	return string(b)
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnectTimeout = time.Minute
	return pgx.ConnectConfig(ctx, config)
}
