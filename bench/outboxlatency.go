package main

import (
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// outboxClients is how many connections publish.
const outboxClients = 8

// latency measures the time from a commit in the outbox to the row in a table of another
// database, through a runner, a server and a consumer in separate processes. The table is
// polled every millisecond.
func (o *outboxBench) latency(from, to string) (err error) {
	const name = "latency"
	address, err := freeAddress()
	if err != nil {
		return err
	}
	url := "http://" + address
	for _, args := range [][]string{
		{"outbox", "run", "--db", from, "--feed", name},
		{"serve", "--store", from, "--listen", address, "--log-level", "warn"},
		{"consume", url + "/feeds/" + name, "--follow", "--into", to + "&table=arrived", "--columns", "n=@key:bigint,body=:json"},
	} {
		p, err := o.start(nil, o.feedctl, args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.interrupt()) }()
		if args[0] == "serve" {
			if _, err := o.ready(&server{p, url}, "/healthz"); err != nil {
				return err
			}
		}
	}
	arrivals, err := pgxpool.New(o.ctx, to)
	if err != nil {
		return err
	}
	defer arrivals.Close()
	// What was written earlier must be on disk before the measurement.
	if _, err := o.pool.Exec(o.ctx, "CHECKPOINT"); err != nil {
		return err
	}
	load := latencyLoad{bench: o.bench, clients: outboxClients, publish: o.publishNumber, arrived: func(first int, seen func(n int)) error {
		rows, _ := arrivals.Query(o.ctx, "SELECT n FROM arrived WHERE n >= $1", first) // ForEachRow returns the error, too
		var n int
		_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
			seen(n)
			return nil
		})
		return err
	}}
	took, err := load.measure()
	if err != nil {
		return err
	}
	for _, at := range []struct {
		name   string
		part   float64
		target float64 // milliseconds
	}{{"median", .5, 8}, {"99th percentile", .99, 30}} {
		o.report.add("commit in outbox to row at consumer, "+at.name, "ms", milliseconds(percentile(took, at.part)), at.target, "limit", atMost(at.target))
	}
	return nil
}

func (o *outboxBench) publishNumber(n int) error {
	_, err := o.pool.Exec(o.ctx, `SELECT feedctl.publish('latency', $1, 'PUT', $2::text)`, strconv.Itoa(n), string(newEntity(n).Body))
	return err
}
