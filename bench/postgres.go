package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/postgres"
)

// startPostgres starts a server with its default settings for durability, and makes an empty
// database.
func startPostgres() (server *pgtest.Server, database string, err error) {
	if server, err = pgtest.New("fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB"); err != nil {
		return nil, "", err
	}
	if database, err = server.Database("bench"); err != nil {
		return nil, "", errors.Join(err, server.Close())
	}
	return server, database, nil
}

// postgres publishes through the store on PostgreSQL, with each publisher waiting until its
// entity is durable. The alternatives are COPY of the same rows into a table with a primary
// key: in one transaction, which is the highest rate of the server, and in transactions of as many
// rows as there are publishers.
func (b *bench) postgres() (err error) {
	const publishers = 256
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	ours, err := b.publishPostgres(database, publishers)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		rows int
		goal target
	}{
		{"COPY of all rows in one transaction", 0, atLeastRatio(0.4)},
		{fmt.Sprintf("COPY of %d rows a transaction", publishers), publishers, atLeastRatio(1.2)},
	} {
		other, err := b.copyRows(database, way.rows)
		if err != nil {
			return err
		}
		b.report.add("publish to PostgreSQL, publishers: 256", "entities/s", ours, other, way.name, way.goal)
	}
	b.report.add("publish to PostgreSQL, publishers: 256", "entities/s", ours, 0, "", atLeast(50_000))
	return nil
}

func (b *bench) publishPostgres(database string, publishers int) (rate float64, err error) {
	u, err := url.Parse(database)
	if err != nil {
		return 0, err
	}
	store, err := postgres.Connect(b.ctx, u, slog.Default())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f, err := producer.Open(b.ctx, store, "bench", producer.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return b.load(publishers, func(ctx context.Context, e *feed.Entity) error {
		_, err := f.Publish(ctx, e)
		return err
	})
}

// copyRows copies rows for the duration of a measurement, in transactions of perTransaction rows
// or, if that is 0, in one transaction, and returns rows per second.
func (b *bench) copyRows(database string, perTransaction int) (rate float64, err error) {
	conn, err := pgx.Connect(b.ctx, database)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(b.ctx)) }()
	_, err = conn.Exec(b.ctx, `
		DROP TABLE IF EXISTS rows;
		CREATE TABLE rows (id bigint PRIMARY KEY, key text NOT NULL, content_type text NOT NULL, body bytea NOT NULL)`)
	if err != nil {
		return 0, err
	}
	entities := make([]*feed.Entity, 256) // made beforehand, like those that are published
	for i := range entities {
		entities[i] = newEntity(i)
	}
	start, rows, id := time.Now(), int64(0), int64(0)
	for time.Since(start) < b.time {
		left := perTransaction
		if left == 0 {
			left = math.MaxInt
		}
		n, err := conn.CopyFrom(b.ctx, pgx.Identifier{"rows"}, []string{"id", "key", "content_type", "body"},
			pgx.CopyFromFunc(func() ([]any, error) {
				if left--; left < 0 || time.Since(start) >= b.time {
					return nil, nil
				}
				e := entities[int(id)%len(entities)]
				id++
				return []any{id, e.ContentLocation, e.ContentType, e.Body}, nil
			}))
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return float64(rows) / time.Since(start).Seconds(), nil
}
