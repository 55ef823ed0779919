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

// sinkPostgres applies entities to the sink in PostgreSQL: as a library, and as a
// consumer of a server on this machine. The alternative is COPY of the same rows into
// an equal table, in as many transactions.
func (b *bench) sinkPostgres() (err error) {
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	// The writes alternate, because the speed of the disk varies.
	const rounds = 3
	var ours, other float64
	for round := range rounds {
		table := fmt.Sprint("applied", round)
		one, err := b.sinkRows(database, table)
		if err != nil {
			return err
		}
		two, err := b.copyEqual(database, table)
		if err != nil {
			return err
		}
		ours, other = ours+one/rounds, other+two/rounds
	}
	const name, otherName = "apply 1 KB to a table in PostgreSQL", "COPY into an equal table, as many rows a transaction"
	b.report.add(name, "rows/s", ours, other, otherName, atLeastRatio(0.6))
	again, err := b.sinkRows(database, "applied0") // every row exists
	if err != nil {
		return err
	}
	b.report.add("the same again, all rows replaced", "rows/s", again, other, otherName, noTarget())
	return b.consumePostgres(database, other)
}

// sinkRows applies entities in batches, and returns rows a second.
func (b *bench) sinkRows(database, table string) (rate float64, err error) {
	k, err := postgres.Open(b.ctx, database, postgres.Options{Table: table})
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

// copyEqual copies the rows that the sink has made into a table like its own, and returns
// rows a second.
func (b *bench) copyEqual(database, table string) (rate float64, err error) {
	conn, err := pgx.Connect(b.ctx, database)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(b.ctx)) }()
	if _, err = conn.Exec(b.ctx, "DROP TABLE IF EXISTS copied; CREATE TABLE copied (LIKE "+table+" INCLUDING ALL)"); err != nil {
		return 0, err
	}
	columns := []string{"key", "content_type", "last_modified", "content_id", "headers", "body", "bytes"}
	start := time.Now()
	for first := 0; first < b.entities; first += sinkBatch {
		last := min(first+sinkBatch, b.entities)
		_, err := conn.CopyFrom(b.ctx, pgx.Identifier{"copied"}, columns, pgx.CopyFromSlice(last-first, func(i int) ([]any, error) {
			e := newEntity(first + i)
			return []any{e.ContentLocation, e.ContentType, e.LastModified, e.ContentID, "{}", e.Body, nil}, nil
		}))
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
