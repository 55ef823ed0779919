package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// jobsSections returns the measurements of the scheduler of jobs. "jobs" stands for all of them.
func jobsSections() []section {
	return []section{
		{name: "jobs-idle", run: (*bench).jobsIdle, once: true},
		{name: "jobs-postgres", run: (*bench).jobsPostgres, once: true},
		{name: "jobs-latency", run: (*bench).jobsLatency, once: true},
		{name: "jobs-throughput", run: (*bench).jobsThroughput, once: true},
		{name: "jobs-origins", run: (*bench).jobsOrigins, once: true},
		{name: "jobs-heal", run: (*bench).jobsHeal, once: true},
	}
}

// some returns the number of jobs to measure with; jobs is the number at full size.
func (b *bench) some(jobs int) int { return max(jobs/b.part, 1) }

// A jobsBench is a database of jobs.
type jobsBench struct {
	*bench
	dir       string // for sinks, job files and, with SQLite, the database
	db        string // URL
	scheduler *jobs.Scheduler
}

// withJobs calls the function use with an empty database of jobs: in SQLite, or in PostgreSQL.
func (b *bench) withJobs(name string, inPostgres bool, use func(*jobsBench) error) (err error) {
	j := &jobsBench{bench: b, dir: filepath.Join(b.dir, name)}
	if err := os.Mkdir(j.dir, 0o777); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.dir)) }()
	j.db = "sqlite:" + filepath.Join(j.dir, "jobs.db")
	if inPostgres {
		var server *pgtest.Server
		if server, j.db, err = startPostgres(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
	}
	if j.scheduler, err = jobs.Open(b.ctx, j.db, kinds.All(), jobs.Defaults()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.scheduler.Close()) }()
	return use(j)
}

// A document is a job of a job file.
type document struct {
	namespace, name, source, target, node string
	follow                                bool
}

// apply applies jobs with the command, and returns how long it took.
func (j *jobsBench) apply(documents []document) (time.Duration, error) {
	files, err := j.write(documents)
	if err != nil {
		return 0, err
	}
	_, took, err := j.run(nil, j.feedctl, "jobs", "apply", "-f", files, "--db", j.db)
	return took, err
}

// write writes job files, one for each namespace, and returns their directory.
func (j *jobsBench) write(documents []document) (files string, err error) {
	files = filepath.Join(j.dir, "jobs")
	if err := os.MkdirAll(files, 0o777); err != nil {
		return "", err
	}
	byNamespace := map[string]*strings.Builder{}
	for _, d := range documents {
		w, ok := byNamespace[d.namespace]
		if !ok {
			w = new(strings.Builder)
			byNamespace[d.namespace] = w
			fmt.Fprintf(w, "version: 1\nnamespace: %s\njobs:\n", d.namespace)
		}
		fmt.Fprintf(w, "  - name: %s\n    kind: consume\n    source: %s\n    target: %q\n    follow: %t\n", d.name, d.source, d.target, d.follow)
		if d.node != "" {
			fmt.Fprintf(w, "    placement: {node: %s}\n", d.node)
		}
	}
	for namespace, w := range byNamespace {
		if err := os.WriteFile(filepath.Join(files, namespace+".yaml"), []byte(w.String()), 0o666); err != nil {
			return "", err
		}
	}
	return files, nil
}

// node starts the node named "node".
func (j *jobsBench) node(flags ...string) (*server, error) { return j.nodeNamed("node", flags...) }

func (j *jobsBench) nodeNamed(name string, flags ...string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{"jobs", "worker", "--name", name, "--db", j.db, "--listen", address, "--log-level", "warn"}, flags...)
	p, err := j.start(nil, j.feedctl, args...)
	if err != nil {
		return nil, err
	}
	return j.ready(&server{p, "http://" + address}, "/healthz")
}

// await waits until the numbers of jobs by state meet a condition.
func (j *jobsBench) await(what string, within time.Duration, condition func(map[jobs.State]int) bool) error {
	for end := time.Now().Add(within); ; {
		totals, err := j.scheduler.Totals(j.ctx, jobs.Filter{})
		if err != nil || condition(totals) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %v: jobs are %v", what, within, totals)
		}
		if err := j.sleep(20 * time.Millisecond); err != nil {
			return err
		}
	}
}

// eachJob calls do with each job that the filter lets through.
func (j *jobsBench) eachJob(filter jobs.Filter, do func(*jobs.Listed)) error {
	filter.Limit = jobs.MaxLimit
	for {
		page, err := j.scheduler.List(j.ctx, filter)
		if err != nil {
			return err
		}
		for n := range page.Jobs {
			do(&page.Jobs[n])
		}
		if filter.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

// sleep waits for d, or returns an error if the program is interrupted.
func (b *bench) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// terminate ends the process as a supervisor does.
func (p *process) terminate() error { return p.end(syscall.SIGTERM) }

// goroutines ends the process, and returns how many goroutines it had: the Go runtime prints them.
func (p *process) goroutines() (int, error) {
	err := p.end(syscall.SIGQUIT)
	return strings.Count("\n"+p.stderr.String(), "\ngoroutine "), err
}

// feeds makes feeds of one entity each in a new store, and returns its directory.
func (b *bench) feeds(name string, many int) (dir string, err error) {
	dir = filepath.Join(b.dir, name)
	store, err := file.New(dir)
	if err != nil {
		return "", err
	}
	g, ctx := errgroup.WithContext(b.ctx)
	g.SetLimit(32)
	for n := range many {
		g.Go(func() error {
			f, err := producer.Open(ctx, store, feedName(n), producer.Config{})
			if err != nil {
				return err
			}
			_, err = f.Publish(ctx, newEntity(n))
			return errors.Join(err, f.Close())
		})
	}
	return dir, g.Wait()
}

func feedName(n int) string { return fmt.Sprintf("feed-%05d", n) }

// sockets returns how many sockets the process has.
func (p *process) sockets() (count int, err error) {
	files := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	list, err := os.ReadDir(files)
	for _, f := range list {
		if to, err := os.Readlink(filepath.Join(files, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			count++
		}
	}
	return count, err
}

// percentile returns the time that the given part of the durations does not exceed.
func percentile(took []time.Duration, part float64) time.Duration {
	slices.Sort(took)
	return took[int(part*float64(len(took)-1))]
}
