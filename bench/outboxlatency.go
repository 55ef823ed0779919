package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// latencyRate is how many entities a second are published, and latencyClients from how
// many connections.
const (
	latencyRate    = 1000
	latencyClients = 8
)

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
	// Everything before must be on disk before the measurement.
	if _, err := o.pool.Exec(o.ctx, "CHECKPOINT"); err != nil {
		return err
	}
	took, err := o.watch(arrivals)
	if err != nil {
		return err
	}
	slices.Sort(took)
	for _, at := range []struct {
		name   string
		part   float64
		target float64 // milliseconds
	}{{"median", .5, 25}, {"99th percentile", .99, 100}} {
		ms := took[int(at.part*float64(len(took)-1))].Seconds() * 1e3
		o.report.add("commit in outbox to row at consumer, "+at.name, "ms", ms, 0, fmt.Sprintf("(%d entities a second)", latencyRate), below(at.target))
	}
	return nil
}

// watch publishes, and returns how long it took until each row was seen. The first
// entity does not count: when it arrives, all three processes are at work.
func (o *outboxBench) watch(arrivals *pgxpool.Pool) ([]time.Duration, error) {
	if err := o.publishNumber(0); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(startupTime)
	for n := 0; n == 0; time.Sleep(10 * time.Millisecond) {
		// The consumer makes the table.
		if err := arrivals.QueryRow(o.ctx, "SELECT count(*) FROM arrived").Scan(&n); err != nil && time.Now().After(deadline) {
			return nil, fmt.Errorf("the first entity has not arrived: %w", err)
		}
	}
	total := int(o.time.Seconds() * latencyRate)
	committed, err := make([]time.Time, total+1), error(nil)
	publishing := make(chan error, 1)
	go func() { publishing <- o.publishNumbers(committed) }()
	arrived := make([]time.Time, total+1)
	for missing := 1; missing <= total && err == nil; {
		rows, _ := arrivals.Query(o.ctx, "SELECT n FROM arrived WHERE n >= $1", missing) // Err returns the error, too
		now, n := time.Now(), 0
		for rows.Next() {
			if err = rows.Scan(&n); err == nil && arrived[n].IsZero() {
				arrived[n] = now
			}
		}
		err = errors.Join(err, rows.Err())
		for missing <= total && !arrived[missing].IsZero() {
			missing++
		}
		time.Sleep(time.Millisecond)
	}
	if err = errors.Join(err, <-publishing); err != nil {
		return nil, err
	}
	took := make([]time.Duration, total)
	for n := range took {
		took[n] = max(0, arrived[n+1].Sub(committed[n+1]))
	}
	return took, nil
}

// publishNumbers publishes an entity for each number from 1 on, on schedule, and notes
// when it was committed.
func (o *outboxBench) publishNumbers(committed []time.Time) error {
	ctx, stop := context.WithCancelCause(o.ctx)
	defer stop(nil)
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range latencyClients {
		clients.Go(func() {
			for n := range numbers {
				if err := o.publishNumber(n); err != nil {
					stop(err)
				}
				committed[n] = time.Now()
			}
		})
	}
	start := time.Now()
	for n := 1; n < len(committed) && ctx.Err() == nil; n++ {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / latencyRate)))
		numbers <- n
	}
	close(numbers)
	clients.Wait()
	return context.Cause(ctx)
}

func (o *outboxBench) publishNumber(n int) error {
	_, err := o.pool.Exec(o.ctx, `SELECT feedctl.publish('latency', $1, 'PUT', $2::text)`, strconv.Itoa(n), string(newEntity(n).Body))
	return err
}
