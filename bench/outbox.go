package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/postgres"
)

// An outboxBench is a database with an outbox, and a store in it.
type outboxBench struct {
	*bench
	pool  *pgxpool.Pool
	db    *outbox.DB
	local *postgres.Store
}

// outbox measures how fast rows of 1 KB are drained, what publishing adds to a transaction, and how
// long it takes from a commit to the page.
func (b *bench) outbox() (err error) {
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	o := outboxBench{bench: b}
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	if o.local, err = postgres.Connect(b.ctx, u, slog.Default()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.local.Close()) }()
	if o.db, err = outbox.Create(b.ctx, database); err != nil {
		return err
	}
	defer o.db.Close()
	if o.pool, err = pgxpool.New(b.ctx, database); err != nil {
		return err
	}
	defer o.pool.Close()
	disk, err := file.New(filepath.Join(b.dir, "outbox"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if err := o.drain("pages in the same database", outbox.Config{Feed: "local", Local: o.local}); err != nil {
		return err
	}
	if err := o.drain("pages on disk", outbox.Config{Feed: "disk", Store: disk}); err != nil {
		return err
	}
	if err := o.cost(); err != nil {
		return err
	}
	elsewhere, err := server.Database("consumer")
	if err != nil {
		return err
	}
	return o.latency(database, elsewhere)
}

// drain moves waiting rows. The alternative is DELETE ... RETURNING of the same rows, in
// transactions of the same size: the minimum cost of taking them from the table.
func (o *outboxBench) drain(name string, c outbox.Config) error {
	const rows = 100_000
	if err := o.fill(c.Feed, rows); err != nil {
		return err
	}
	runner, err := o.db.NewRunner(c)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := runner.Drain(o.ctx); err != nil {
		return err
	}
	ours := rows / time.Since(start).Seconds()
	if moved := runner.Stats().Rows; moved != rows {
		return fmt.Errorf("%d rows were moved, want %d", moved, rows)
	}
	if err := o.fill("deleted", rows); err != nil {
		return err
	}
	start = time.Now()
	for left := int64(1); left > 0; {
		found, err := o.pool.Query(o.ctx, `DELETE FROM feedctl.outbox WHERE feed = 'deleted' AND id IN
			(SELECT id FROM feedctl.outbox WHERE feed = 'deleted' ORDER BY id LIMIT 5000) RETURNING key, body`)
		if err != nil {
			return err
		}
		for found.Next() {
			found.RawValues() // receives the rows and does nothing else
		}
		if left = found.CommandTag().RowsAffected(); found.Err() != nil {
			return found.Err()
		}
	}
	other := rows / time.Since(start).Seconds()
	o.report.add("drain outbox, "+name, "entities/s", ours, other, "DELETE ... RETURNING in batches", atLeast(30_000))
	return nil
}

func (o *outboxBench) fill(feed string, rows int) error {
	n := 0
	_, err := o.pool.CopyFrom(o.ctx, pgx.Identifier{"feedctl", "outbox"}, []string{"feed", "key", "body"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == rows {
				return nil, nil
			}
			e := newEntity(n)
			n++
			return []any{feed, e.ContentLocation, e.Body}, nil
		}))
	return err
}

// cost compares transactions that insert a row of 1 KB with transactions that also publish it, and
// measures inserting and publishing separately.
func (o *outboxBench) cost() error {
	if _, err := o.pool.Exec(o.ctx, `CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb)`); err != nil {
		return err
	}
	const insert = `INSERT INTO orders (body) VALUES ($1::text::jsonb)`
	const publish = `SELECT feedctl.publish('orders', '1', 'PUT', $1::text)`
	ours, err := o.transactions(8, insert, publish)
	if err != nil {
		return err
	}
	other, err := o.transactions(8, insert)
	if err != nil {
		return err
	}
	o.report.add("insert and publish, clients: 8", "transactions/s", ours, other, "the same without publish", noTarget())
	var took [2]float64
	for n, statement := range []string{
		`PERFORM feedctl.publish('orders', '1', 'PUT', body)`, `INSERT INTO orders (body) VALUES (body::jsonb)`,
	} {
		if took[n], err = o.statements(statement); err != nil {
			return err
		}
	}
	o.report.add("feedctl.publish", "µs in the server", took[0], took[1], "INSERT of the same row as jsonb", noTarget())
	return nil
}

// transactions returns how many transactions a second the clients commit.
func (o *outboxBench) transactions(clients int, statements ...string) (float64, error) {
	ctx, cancel := context.WithCancelCause(o.ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	body := string(newEntity(1).Body)
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for time.Since(start) < o.time && ctx.Err() == nil {
				err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
					for _, sql := range statements {
						if _, err := tx.Exec(ctx, sql, body); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), context.Cause(ctx)
}

// statements returns the time that a PL/pgSQL statement takes in a loop, in microseconds.
func (o *outboxBench) statements(statement string) (float64, error) {
	const times = 20_000
	loop := fmt.Sprintf(`DO $$ DECLARE body text := '%s'; BEGIN FOR i IN 1..%d LOOP %s; END LOOP; END $$`, newEntity(1).Body, times, statement)
	start := time.Now()
	if _, err := o.pool.Exec(o.ctx, loop); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds() * 1e6 / times, nil
}
