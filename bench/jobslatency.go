package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/layout"
)

// lingeringCommits is how many commits are awaited one after another, on each side.
const lingeringCommits = 300

// jobsLatency measures the time from a commit to the row in PostgreSQL, for a job that has a slot
// and waits for changes, and for a process of the plain command. The two get commits in turn.
func (b *bench) jobsLatency() (err error) {
	server, to, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	store, err := b.feeds("latency-feeds", 2)
	if err != nil {
		return err
	}
	feeds, err := b.serveStore(store, "--writable")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, feeds.interrupt()) }()
	return b.withJobs("latency", false, func(j *jobsBench) error {
		l := latencyBench{jobsBench: j, feeds: feeds, to: to}
		return l.measure()
	})
}

type latencyBench struct {
	*jobsBench
	feeds *server
	to    string // the database with the rows
	rows  *pgx.Conn
}

// A side is a follower whose latency is measured.
type side struct {
	feed, table string
	took        []time.Duration
}

func (l *latencyBench) measure() (err error) {
	if l.rows, err = pgx.Connect(l.ctx, l.to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.rows.Close(l.ctx)) }()
	job, plain := &side{feed: feedName(0), table: "by_job"}, &side{feed: feedName(1), table: "by_process"}
	source := func(s *side) string { return l.feeds.url + layout.FeedPath(s.feed) }
	p, err := l.start(nil, l.feedctl, "consume", source(plain), "--into", l.to+"&table="+plain.table, "--follow", "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.interrupt()) }()
	node, err := l.node()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.terminate()) }()
	documents := []document{{"default", "job", source(job), l.to + "&table=" + job.table, "node", true}} // pinned to the node, since the server has a Unix socket
	if _, err := l.apply(documents); err != nil {
		return err
	}
	if err := l.await("the job runs", startupTime, func(in map[jobs.State]int) bool { return in[jobs.Running] == 1 }); err != nil {
		return err
	}
	for _, s := range []*side{job, plain} {
		if err := l.first(s); err != nil {
			return err
		}
	}
	for n := range lingeringCommits / min(l.part, 10) {
		for _, s := range []*side{job, plain} {
			if err := l.commit(s, n); err != nil {
				return err
			}
		}
	}
	const name, otherName = "commit to row, by a job in a slot", "a process of consume --follow"
	ms := func(s *side, part float64) float64 { return percentile(s.took, part).Seconds() * 1e3 }
	l.report.add(name+", median", "ms", ms(job, .5), ms(plain, .5), otherName, atMostRatio(1.2))
	l.report.add(name+", p95", "ms", ms(job, .95), ms(plain, .95), otherName, noTarget())
	return nil
}

// first waits for the entity that the feed has at the start. The consumer makes the table.
func (l *latencyBench) first(s *side) error {
	for deadline := time.Now().Add(startupTime); ; time.Sleep(10 * time.Millisecond) {
		n := 0
		err := l.rows.QueryRow(l.ctx, "SELECT count(*) FROM "+s.table).Scan(&n)
		if err == nil && n > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the first entity has not arrived: %w", err)
		}
	}
}

// commit publishes an entity and waits for its row.
func (l *latencyBench) commit(s *side, n int) error {
	if err := l.postTo(l.feeds, s.feed, 10+n); err != nil { // waits for the commit
		return err
	}
	committed := time.Now()
	for {
		found := false
		if err := l.rows.QueryRow(l.ctx, "SELECT count(*) = $1 FROM "+s.table, n+2).Scan(&found); err != nil {
			return err
		}
		took := time.Since(committed)
		if found {
			s.took = append(s.took, took)
			return nil
		}
		if took > startupTime {
			return fmt.Errorf("commit %d has not arrived in table %s", n, s.table)
		}
		time.Sleep(time.Millisecond / 4)
	}
}
