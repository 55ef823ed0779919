package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/layout"
)

const (
	idleJobs       = 10_000
	fewJobs        = 20               // to compare with
	idleSlots      = "10"             // so that few jobs keep slots, connections and goroutines
	wokenPart      = 100              // one of this many jobs is woken
	plainProcesses = 20               // of the plain command, to compare with
	shown          = 7                // how many times lists are printed
	settleTime     = 10 * time.Second // after the start of processes
	leaderTime     = 20 * time.Second // after which a node also does the maintenance of the queue
	restTime       = 20 * time.Second // for which writes are counted
	wakeLimit      = time.Minute      // for an entity to arrive
)

func (b *bench) jobsIdle() error { return b.idle("SQLite", false) }

func (b *bench) jobsPostgres() error { return b.idle("PostgreSQL", true) }

// idle measures a node with many followers that have caught up.
func (b *bench) idle(where string, inPostgres bool) (err error) {
	many := b.some(idleJobs)
	store, err := b.feeds("idle-feeds", many+plainProcesses)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	feeds, err := b.serveStore(store, "--writable")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, feeds.interrupt()) }()
	return b.withJobs("idle", inPostgres, func(j *jobsBench) error {
		i := &idleBench{jobsBench: j, feeds: feeds, many: many, name: fmt.Sprintf("%d jobs in %s", many, where)}
		for _, step := range []func() error{i.begin, i.first, i.rest} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

type idleBench struct {
	*jobsBench
	feeds *server
	many  int
	name  string
	few   footprint // of a node with fewJobs
	empty int64     // memory of a node without jobs
}

// A footprint is what a process holds.
type footprint struct {
	memory              int64 // resident, bytes
	sockets, goroutines int
}

// footprint measures a node and ends it.
func (b *bench) footprint(node *server) (f footprint, err error) {
	var errs [3]error
	f.memory, errs[0] = memoryOf(node.cmd.Process.Pid, "VmRSS")
	f.sockets, errs[1] = node.sockets()
	f.goroutines, errs[2] = node.goroutines()
	return f, errors.Join(errs[:]...)
}

func (i *idleBench) sink(n int) string { return filepath.Join(i.dir, fmt.Sprintf("sink-%05d", n)) }

func (i *idleBench) feed(n int) string { return i.feeds.url + layout.FeedPath(feedName(n)) }

// caughtUp applies the given number of jobs, and runs them until they are idle, except for a few
// that keep their slots.
func (i *idleBench) caughtUp(many int) (apply, run time.Duration, err error) {
	documents := make([]document, many)
	for n := range documents {
		documents[n] = document{"default", feedName(n), i.feed(n), "jsonl:" + i.sink(n), "node", true}
	}
	if apply, err = i.apply(documents); err != nil {
		return apply, 0, err
	}
	node, err := i.node("--max-jobs", "100")
	if err != nil {
		return apply, 0, err
	}
	start := time.Now()
	last := "default/" + feedName(many-1)
	err = i.await("all jobs have caught up", 5*time.Minute, func(in map[jobs.State]int) bool {
		return in[jobs.Pending]+in[jobs.Crashing] == 0 && exists(i.sink(many-1))
	})
	run = time.Since(start)
	if err == nil {
		err = i.await("all jobs are watched", 5*time.Minute, func(in map[jobs.State]int) bool {
			w, err := i.scheduler.Watch(i.ctx, last)
			return err == nil && !w.Checked.IsZero() && in[jobs.Pending] == 0
		})
	}
	return apply, run, errors.Join(err, node.terminate())
}

// begin measures a node without jobs, and then one with few. Jobs are accepted even if the node to
// which they are pinned has been killed.
func (i *idleBench) begin() error {
	measure := func(after time.Duration) (footprint, error) {
		node, err := i.node("--max-jobs", idleSlots)
		if err != nil {
			return footprint{}, err
		}
		err = i.sleep(after)
		f, e := i.footprint(node)
		return f, errors.Join(err, e)
	}
	empty, err := measure(settleTime)
	if err != nil {
		return err
	}
	i.empty = empty.memory
	if _, _, err := i.caughtUp(fewJobs); err != nil {
		return err
	}
	i.few, err = measure(leaderTime)
	return err
}

// first applies all jobs, lists them, and runs them for the first time.
func (i *idleBench) first() error {
	apply, run, err := i.caughtUp(i.many)
	if err != nil {
		return err
	}
	i.report.add("apply "+i.name, "s", apply.Seconds(), 5, "limit", below(5))
	i.report.add("first runs of "+i.name, "jobs/s", float64(i.many)/run.Seconds(), 0, "", noTarget())
	for _, command := range []struct {
		name string
		args []string
	}{
		{"list 100 of", []string{"list", "--limit", "100"}},
		{"list crashing of", []string{"list", "--state", "crashing"}},
		{"describe one of", []string{"describe", feedName(i.many / 2)}},
	} {
		var took []time.Duration
		for range shown {
			_, d, err := i.run(io.Discard, i.feedctl, append([]string{"jobs", "--db", i.db}, command.args...)...)
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		i.report.add(command.name+" "+i.name, "s", percentile(took, .5).Seconds(), .1, "limit for the command", below(.1))
	}
	return nil
}

// rest measures a node whose jobs are idle.
func (i *idleBench) rest() error {
	node, err := i.node("--max-jobs", idleSlots)
	if err != nil {
		return err
	}
	writes, err := i.atRest()
	at, e := i.footprint(node)
	if err := errors.Join(err, e); err != nil {
		return err
	}
	i.report.add("writes at rest, "+i.name, "/s", writes, 5, "limit", atMost(5))
	name := fmt.Sprintf("more than with %d jobs, %s", fewJobs, i.name)
	i.report.add("goroutines "+name, "", float64(at.goroutines-i.few.goroutines), 0, "", atMost(0))
	i.report.add("sockets "+name, "", float64(at.sockets-i.few.sockets), 0, "", atMost(0))
	return i.besidePlain(at.memory)
}

// atRest returns how many writes a second the database receives.
func (i *idleBench) atRest() (perSecond float64, err error) {
	if err := i.sleep(settleTime); err != nil {
		return 0, err
	}
	before, err := i.writes()
	if err != nil {
		return 0, err
	}
	if err := i.sleep(restTime); err != nil {
		return 0, err
	}
	after, err := i.writes()
	return float64(after-before) / restTime.Seconds(), err
}

// writes returns the number of writes so far: of rows in PostgreSQL, of transactions in SQLite.
func (i *idleBench) writes() (n int64, err error) {
	if file, ok := strings.CutPrefix(i.db, "sqlite:"); ok {
		// The header of the index of the write-ahead log counts transactions
		// (sqlite.org/walformat.html, iChange).
		header, err := os.ReadFile(file + "-shm")
		if err != nil {
			return 0, err
		}
		return int64(binary.NativeEndian.Uint32(header[8:])), nil
	}
	conn, err := pgx.Connect(i.ctx, i.db)
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(i.ctx, "SELECT tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, errors.Join(err, conn.Close(i.ctx))
}

// besidePlain compares the node with a process of the plain command for each feed. It starts only
// some of these processes.
func (i *idleBench) besidePlain(memory int64) (err error) {
	var followers []*process
	defer func() {
		for _, p := range followers {
			err = errors.Join(err, p.interrupt())
		}
	}()
	for n := i.many; n < i.many+plainProcesses; n++ {
		p, err := i.start(nil, i.feedctl, "consume", i.feed(n), "--into", "jsonl:"+i.sink(n), "--follow", "--log-level", "warn")
		if err != nil {
			return err
		}
		followers = append(followers, p)
	}
	if err := i.sleep(settleTime); err != nil {
		return err
	}
	var plain int64
	for _, p := range followers {
		private, err := memoryOf(p.cmd.Process.Pid, "RssAnon")
		if err != nil {
			return err
		}
		plain += private
	}
	i.report.add("memory above an empty node, "+i.name, "MiB", mib(memory-i.empty), mib(plain)/plainProcesses*float64(i.many),
		fmt.Sprintf("a process of consume --follow for each, by RssAnon of %d", plainProcesses), atMost(60))
	return i.wake()
}

// wake publishes to some of the feeds that jobs follow, chosen at random, and to the feeds of the
// processes.
func (i *idleBench) wake() error {
	node, err := i.node()
	if err != nil {
		return err
	}
	err = i.sleep(settleTime)
	var ours, other []time.Duration
	if err == nil {
		ours, err = i.arrivals(rand.Perm(i.many)[:max(1, i.many/wokenPart)])
	}
	if err == nil {
		var plain []int
		for n := range plainProcesses {
			plain = append(plain, i.many+n)
		}
		other, err = i.arrivals(plain)
	}
	if err := errors.Join(err, node.terminate()); err != nil {
		return err
	}
	name := fmt.Sprintf("commit to first byte applied, 1 %% of %s", i.name)
	const otherName = "processes of consume --follow"
	i.report.add(name+", median", "s", percentile(ours, .5).Seconds(), percentile(other, .5).Seconds(), otherName, noTarget())
	i.report.add(name+", p95", "s", percentile(ours, .95).Seconds(), percentile(other, .95).Seconds(), otherName, atMost(2))
	return nil
}

// arrivals publishes an entity to each feed, and returns how long each took from its commit until
// its sink had the first byte.
func (i *idleBench) arrivals(feeds []int) ([]time.Duration, error) {
	sizes := make([]int64, len(feeds))
	committed := make([]atomic.Int64, len(feeds))
	for k, n := range feeds {
		sizes[k] = size(i.sink(n))
	}
	g, ctx := errgroup.WithContext(i.ctx)
	g.SetLimit(9)
	g.Go(func() error {
		publishers, _ := errgroup.WithContext(ctx)
		publishers.SetLimit(8)
		for k, n := range feeds {
			publishers.Go(func() error {
				err := i.postTo(i.feeds, feedName(n), n)
				committed[k].Store(time.Now().UnixNano())
				return err
			})
		}
		return publishers.Wait()
	})
	took := make([]time.Duration, len(feeds))
	for missing := len(feeds); missing > 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		for k, n := range feeds {
			at := committed[k].Load()
			if took[k] != 0 || at == 0 {
				continue
			}
			d := time.Since(time.Unix(0, at))
			if size(i.sink(n)) > sizes[k] || d > wakeLimit {
				took[k] = d
				missing--
			}
		}
	}
	return took, g.Wait()
}

func exists(name string) bool { return size(name) >= 0 }

// size returns the size of a file, or -1 if it does not exist.
func size(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return -1
	}
	return info.Size()
}
