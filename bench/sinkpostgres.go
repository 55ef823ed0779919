package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink/postgres"
)

// sinkBatch is how many entities of 1 KB a consumer commits together, by default.
const sinkBatch = 8192

// sinkPostgres applies entities to the sink in PostgreSQL: as a library, to an empty table and then
// to the same table again, and as a consumer of a server on this machine. The alternatives use the
// same number of transactions: COPY of the same rows into an equal table that is empty; and, if the
// table has the rows, COPY into a temporary table and one INSERT ... ON CONFLICT DO UPDATE from
// there.
func (b *bench) sinkPostgres() (err error) {
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	const copied = "COPY into an equal table, as many rows a transaction"
	first, err := b.sinkRows(database)
	if err != nil {
		return err
	}
	insert, err := b.copyRowsOf(database, `CREATE TABLE copied (LIKE applied INCLUDING ALL)`, "copied", "")
	if err != nil {
		return err
	}
	b.report.add("apply 1 KB to a table in PostgreSQL", "rows/s", first, insert, copied, atLeastRatio(0.95))
	again, err := b.sinkRows(database)
	if err != nil {
		return err
	}
	merge, err := b.copyRowsOf(database, `CREATE TEMPORARY TABLE staged (LIKE copied) ON COMMIT DELETE ROWS`, "staged", `
		INSERT INTO copied SELECT * FROM staged ON CONFLICT (key) DO UPDATE SET
			content_type = excluded.content_type, last_modified = excluded.last_modified, content_id = excluded.content_id,
			headers = excluded.headers, body = excluded.body, bytes = excluded.bytes`)
	if err != nil {
		return err
	}
	b.report.add("the same again, all rows replaced", "rows/s", again, merge, "COPY into a temporary table and one INSERT ON CONFLICT, as many rows a transaction", atLeastRatio(0.7))
	b.report.add("the same again, all rows replaced", "rows/s", again, insert, copied, noTarget())
	return b.consumePostgres(database, insert)
}

// sinkRows applies entities in batches, and returns rows a second.
func (b *bench) sinkRows(database string) (rate float64, err error) {
	k, err := postgres.Open(b.ctx, database, postgres.Options{Table: "applied"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	start := time.Now()
	for first := 0; first < b.entities; first += sinkBatch {
		batch, err := k.Begin(b.ctx)
		if err != nil {
			return 0, err
		}
		last := min(first+sinkBatch, b.entities)
		for i := first; i < last; i++ {
			if err := batch.Apply(b.ctx, newEntity(i)); err != nil {
				return 0, err
			}
		}
		if err := batch.Commit(b.ctx, feed.Position{ContentID: fmt.Sprint(last)}); err != nil {
			return 0, err
		}
	}
	return float64(b.entities) / time.Since(start).Seconds(), nil
}

// copyRowsOf copies the rows that the sink makes into a new table. It runs the statement create at
// the beginning, and the statement merge, if any, at the end of each transaction. It returns rows a
// second.
func (b *bench) copyRowsOf(database, create, table, merge string) (rate float64, err error) {
	conn, err := pgx.Connect(b.ctx, database)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(b.ctx)) }()
	if _, err = conn.Exec(b.ctx, create); err != nil {
		return 0, err
	}
	columns := []string{"key", "content_type", "last_modified", "content_id", "headers", "body", "bytes"}
	start := time.Now()
	for first := 0; first < b.entities; first += sinkBatch {
		last := min(first+sinkBatch, b.entities)
		err := pgx.BeginFunc(b.ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.CopyFrom(b.ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(last-first, func(i int) ([]any, error) {
				e := newEntity(first + i)
				return []any{e.ContentLocation, e.ContentType, e.LastModified, e.ContentID, "{}", e.Body, nil}, nil
			}))
			if err == nil && merge != "" {
				_, err = tx.Exec(b.ctx, merge)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return float64(b.entities) / time.Since(start).Seconds(), nil
}

// consumePostgres reads a feed from a server on this machine into a new table.
func (b *bench) consumePostgres(database string, other float64) (err error) {
	dir, _, err := b.fill("sinkpostgres", b.entities)
	if err != nil {
		return err
	}
	s, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.interrupt()) }()
	p, took, err := b.run(nil, b.feedctl, "consume", s.url+layout.FeedPath("bench"), "--into", database+"&table=consumed")
	if err != nil {
		return err
	}
	b.report.add("consume 1 KB into PostgreSQL", "rows/s", float64(b.entities)/took.Seconds(), other,
		"COPY into an equal table, without a feed to read", noTarget())
	b.reportMemory("consume into PostgreSQL", p)
	return nil
}
