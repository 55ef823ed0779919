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
	activeEntities = 2000 // entities of 1 KB that each job copies
	activeRounds   = 5
)

// jobsThroughput compares many jobs in one process, each of which copies a feed, with the same
// number of processes of the plain command. The measurement of a side begins when nothing runs, and
// ends when everything is copied. The sides take turns.
func (b *bench) jobsThroughput() error {
	dir, _, err := b.fill("throughput", activeEntities)
	if err != nil {
		return err
	}
	feeds, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	var byJobs, byProcesses copied
	for n := range activeRounds {
		err = b.withJobs(fmt.Sprint("active-", n), false, func(j *jobsBench) error {
			source := feeds.url + layout.FeedPath("bench")
			return errors.Join(j.copyByProcesses(source, &byProcesses), j.copyByJobs(source, &byJobs))
		})
		if err != nil {
			break
		}
	}
	if err := errors.Join(err, feeds.interrupt()); err != nil {
		return err
	}
	const entities = activeJobs * activeEntities
	rate := func(c copied) float64 { return entities / percentile(c.took, .5).Seconds() }
	b.report.add(fmt.Sprintf("throughput of %d active jobs", activeJobs), "entities/s", rate(byJobs), rate(byProcesses),
		fmt.Sprintf("%d processes of consume", activeJobs), atLeastRatio(1.5))
	b.report.add(fmt.Sprintf("CPU of %d active jobs", activeJobs), "s", byJobs.cpu/activeRounds, byProcesses.cpu/activeRounds, "the same processes", noTarget())
	b.report.add(fmt.Sprintf("memory of %d active jobs", activeJobs), "MiB", mib(byJobs.peak), mib(byProcesses.peak), "the same processes, each at its peak", noTarget())
	return nil
}

// copied holds the time, CPU time and memory that a side needed to copy the feed to all its sinks.
type copied struct {
	took []time.Duration
	cpu  float64 // seconds, of all rounds
	peak int64   // bytes, of the last round
}

func (j *jobsBench) copyByProcesses(source string, c *copied) (err error) {
	var processes []*process
	start := time.Now()
	for n := range activeJobs {
		p, e := j.start(nil, j.feedctl, "consume", source, "--into", j.sink("process", n), "--log-level", "warn")
		if err = e; err != nil {
			break
		}
		processes = append(processes, p)
	}
	for _, p := range processes {
		err = errors.Join(err, p.wait())
	}
	c.took = append(c.took, time.Since(start))
	c.cpu += cpu(processes...)
	c.peak = peaks(processes)
	return err
}

func (j *jobsBench) copyByJobs(source string, c *copied) error {
	documents := make([]document, activeJobs)
	for n := range documents {
		documents[n] = document{namespace: "default", name: feedName(n), source: source, target: j.sink("job", n)}
	}
	files, err := j.write(documents)
	if err != nil {
		return err
	}
	start := time.Now()
	node, err := j.start(nil, j.feedctl, "jobs", "standalone", "-f", files, "--name", "node", "--db", j.db, "--log-level", "warn")
	if err != nil {
		return err
	}
	err = j.await("all jobs have completed", 2*time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Completed] == activeJobs })
	c.took = append(c.took, time.Since(start))
	if err := errors.Join(err, node.terminate()); err != nil {
		return err
	}
	c.cpu += cpu(node)
	c.peak = node.peak
	return nil
}

func (j *jobsBench) sink(side string, n int) string {
	return "jsonl:" + filepath.Join(j.dir, fmt.Sprint(side, n))
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
