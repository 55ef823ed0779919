package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/layout"
)

const (
	activeJobs     = 50
	activeEntities = 2000 // of 1 KB, that each of them copies
)

// jobsThroughput has many jobs copy a feed each, in one process, and as many processes of the
// plain command. Both begin when nothing runs, and end when everything is copied.
func (b *bench) jobsThroughput() error {
	dir, _, err := b.fill("throughput", activeEntities)
	if err != nil {
		return err
	}
	feeds, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = b.withJobs("active", false, func(j *jobsBench) error { return j.throughput(feeds) })
	return errors.Join(err, feeds.interrupt())
}

func (j *jobsBench) throughput(feeds *server) error {
	source := feeds.url + layout.FeedPath("bench")
	sink := func(side string, n int) string { return "jsonl:" + filepath.Join(j.dir, fmt.Sprint(side, n)) }
	var processes []*process
	start := time.Now()
	var err error
	for n := range activeJobs {
		p, e := j.start(nil, j.feedctl, "consume", source, "--into", sink("process", n), "--log-level", "warn")
		if e != nil {
			err = e
			break
		}
		processes = append(processes, p)
	}
	for _, p := range processes {
		err = errors.Join(err, p.wait())
	}
	plain := time.Since(start)
	if err != nil {
		return err
	}
	documents := make([]document, activeJobs)
	for n := range documents {
		documents[n] = document{namespace: "default", name: feedName(n), source: source, target: sink("job", n)}
	}
	files, err := j.write(documents)
	if err != nil {
		return err
	}
	start = time.Now()
	node, err := j.start(nil, j.feedctl, "jobs", "standalone", "-f", files, "--name", "node", "--db", j.db, "--log-level", "warn")
	if err != nil {
		return err
	}
	err = j.await("all jobs have completed", 2*time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Completed] == activeJobs })
	took := time.Since(start)
	if err := errors.Join(err, node.terminate()); err != nil {
		return err
	}
	const bytes = activeJobs * activeEntities
	j.report.add(fmt.Sprintf("throughput of %d active jobs", activeJobs), "entities/s", bytes/took.Seconds(), bytes/plain.Seconds(),
		fmt.Sprintf("%d processes of consume", activeJobs), atLeastRatio(1.5))
	j.report.add(fmt.Sprintf("CPU of %d active jobs", activeJobs), "s", cpu(node), cpu(processes...), "the same processes", noTarget())
	j.report.add(fmt.Sprintf("memory of %d active jobs", activeJobs), "MiB", mib(node.peak), mib(peaks(processes)), "the same processes, each at its peak", noTarget())
	return nil
}

func peaks(processes []*process) (sum int64) {
	for _, p := range processes {
		sum += p.peak
	}
	return sum
}

// cpu returns the CPU time of processes that have ended, in seconds.
func cpu(processes ...*process) (seconds float64) {
	for _, p := range processes {
		seconds += (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
	}
	return seconds
}
