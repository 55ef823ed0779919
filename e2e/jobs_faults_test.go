package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/jobs"
)

// A jobsFault is a fault to cause or a command to run. do reports whether that was possible.
type jobsFault struct {
	name string
	do   func() bool
}

func (r *jobsRig) faults() []jobsFault {
	all := []jobsFault{
		{"pause", func() bool { return r.onSome("pause") }},
		{"kill", func() bool { return r.restart(os.Kill) }},
		{"restart", func() bool { return r.onSome("restart") }},
		{"apply", r.vary},
		{"freeze", r.freeze},
		{"resume", func() bool { r.command("resume", "--all"); return true }},
		{"delete", r.remove},
		{"continue", r.thaw},
		{"terminate", func() bool { return r.restart(syscall.SIGTERM) }},
	}
	if r.several { // several nodes share the database, and continue without it
		all = append(all,
			jobsFault{"stop the database", func() bool { r.pg.Restart(); return true }},
			jobsFault{"kill the database", func() bool { r.pg.Kill(); r.pg.Start(); return true }})
	} else {
		all = append(all, jobsFault{"lock the database", r.lock})
	}
	return append(all, jobsFault{"kill the server", func() bool { return r.kill(r.servers[0]) }})
}

// step changes the sources, and then causes a fault or runs a command: first each of them once, then random ones.
func (r *jobsRig) step(n int) {
	r.write(r.rng.IntN(2 * *jobsWrites))
	faults := r.faults()
	f := faults[r.rng.IntN(len(faults))]
	if n < len(faults) {
		f = faults[n]
	}
	r.checkWorkers()
	if f.do() {
		r.done[f.name]++
	}
	r.pause()
}

// pause waits for a random time, so that faults meet jobs in all states.
func (r *jobsRig) pause() { time.Sleep(time.Duration(r.rng.IntN(int(jobsPause)))) }

// jobsPause is the longest time between two faults.
const jobsPause = 400 * time.Millisecond

func (r *jobsRig) onSome(command string) bool {
	names := r.some()
	if len(names) == 0 {
		return false
	}
	r.command(append([]string{command}, names...)...)
	return true
}

// vary changes options that do not affect the results of jobs, and creates deleted jobs again.
func (r *jobsRig) vary() bool {
	for _, j := range r.jobs {
		j.deleted = false
		option := map[string]string{"consume": "batch-entities", "bridge couchdb": "max-page-entities", "bridge kinto": "max-page-entities"}[j.kind]
		if option == "" || r.rng.IntN(3) != 0 {
			continue
		}
		j.options[option] = 1 + r.rng.IntN(10)
	}
	r.apply()
	return true
}

// remove deletes a job.
func (r *jobsRig) remove() bool {
	r.jobs[r.rng.IntN(len(r.jobs))].deleted = true
	r.apply()
	return true
}

// working returns the workers that are not frozen.
func (r *jobsRig) working() []*process {
	return slices.DeleteFunc(slices.Clone(r.workers), func(p *process) bool { return r.frozen[p] })
}

// restart ends a worker with a signal, and starts it again.
func (r *jobsRig) restart(signal os.Signal) bool {
	victims := r.workers
	if signal != os.Kill {
		victims = r.working()
	}
	p := victims[r.rng.IntN(len(victims))]
	p.kill(signal)
	r.checkEnd(p, signal)
	delete(r.frozen, p)
	p.start()
	return true
}

// checkEnd checks how a worker ended after a signal, which may have come before the worker had a handler for it.
func (r *jobsRig) checkEnd(p *process, signal os.Signal) {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signal() == signal || signal != os.Kill && p.cmd.ProcessState.Success() || r.noDatabase(p) {
		return
	}
	r.t.Errorf("%s ended with %v after %v:\n%s", p.name, p.cmd.ProcessState, signal, p.stderr)
}

// freeze suspends a worker with SIGSTOP.
func (r *jobsRig) freeze() bool {
	victims := r.working()
	if len(victims) == 1 && r.several {
		return false
	}
	p := victims[r.rng.IntN(len(victims))]
	r.signal(p, syscall.SIGSTOP)
	r.frozen[p] = true
	if !r.several { // the worker may hold a lock on the file while it is frozen
		if r.rng.IntN(2) == 0 {
			time.Sleep(jobsLease + time.Second)
		}
		r.pause()
		r.thaw()
	}
	return true
}

// lock locks the database file against writes, for longer than other processes wait for the lock.
func (r *jobsRig) lock() bool {
	conn, err := sqlite.OpenConn(strings.TrimPrefix(r.db, "sqlite:"), sqlite.OpenReadWrite)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(waitLimit)
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(sqliteBusy + time.Second)
	end(&err)
	return true
}

// sqliteBusy is how long a transaction of package jobdb waits for another one.
const sqliteBusy = 5 * time.Second

// thaw lets frozen workers continue.
func (r *jobsRig) thaw() bool {
	found := len(r.frozen) > 0
	for p := range r.frozen {
		r.signal(p, syscall.SIGCONT)
	}
	clear(r.frozen)
	return found
}

func (r *jobsRig) signal(p *process, signal os.Signal) {
	if err := p.cmd.Process.Signal(signal); err != nil {
		r.t.Fatalf("%s: %v", p.name, err)
	}
}

// checkWorkers checks that no worker has ended of its own accord. A worker that was started while its database was
// unavailable is started again, as a supervisor would do.
func (r *jobsRig) checkWorkers() {
	for _, p := range r.workers {
		switch {
		case !p.ended():
		case r.noDatabase(p):
			p.start()
		default:
			r.t.Fatalf("%s has ended: %v\n%s", p.name, p.err, p.stderr)
		}
	}
}

// noDatabase reports whether a worker ended because its database was unavailable when it was started.
func (r *jobsRig) noDatabase(p *process) bool {
	return r.several && strings.HasPrefix(p.stderr.String(), "feedctl: open database of jobs: ")
}

// calm ends all faults, and resumes and restarts all jobs.
func (r *jobsRig) calm() {
	r.thaw()
	r.vary()
	r.command("resume", "--all")
	r.command("restart", "--all")
}

// lastKey is the key of the last change of each source.
const lastKey = "the-end"

// drain waits until everything is copied.
func (r *jobsRig) drain() {
	for _, w := range r.writers {
		if err := w.update(r.t.Context(), lastKey); err != nil {
			r.t.Fatal(err)
		}
	}
	r.endRecords()
	r.writeRows(1, lastKey)
	var missing []string
	waitForCommand(r.t, func() string { return fmt.Sprintf("not complete: %q\n%s", missing, r.jobsState()) }, func() bool {
		r.checkWorkers()
		if !r.settled() {
			return false
		}
		missing = r.incomplete()
		return len(missing) == 0
	})
}

// settled reports whether each job is idle, is completed, or is running and follows its source.
func (r *jobsRig) settled() bool {
	list := r.list()
	for _, j := range r.jobs {
		switch list[j.name].State {
		case jobs.Failed:
			r.t.Fatalf("job %s has failed\n%s", j.name, r.command("describe", j.name))
		case jobs.Completed:
		case jobs.Idle, jobs.Running:
			if !j.follow {
				return false
			}
		default:
			return false
		}
	}
	return len(list) == len(r.jobs)
}

// incomplete returns the names of the consumers whose copies do not have the last change.
func (r *jobsRig) incomplete() (names []string) {
	for _, j := range r.jobs {
		if j.kind == "consume" && !r.isComplete(j) {
			names = append(names, j.name)
		}
	}
	return names
}

func (r *jobsRig) isComplete(j *chaosJob) bool {
	if j.sink == "couchdb" {
		copied := couchWriter{db: strings.TrimPrefix(j.target, "couchdb:")}
		_, found, err := copied.get(r.t.Context(), lastKey)
		return found && err == nil
	}
	lines, err := r.read(j.sink, j.target)
	return err == nil && slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, lastKey) })
}

// stopWorkers ends all workers.
func (r *jobsRig) stopWorkers() {
	for _, p := range r.workers {
		p.kill(syscall.SIGTERM)
		r.checkEnd(p, syscall.SIGTERM)
	}
}

// retire ends all workers when all jobs are idle or completed. To make jobs idle, it gives each worker only one slot: a
// run that has nothing left to do then ends, since others are waiting.
func (r *jobsRig) retire() {
	r.stopWorkers()
	for _, p := range r.workers {
		p.args = append(p.args, "--max-jobs", "1")
		p.start()
	}
	waitForCommand(r.t, r.jobsState, func() bool {
		r.checkWorkers()
		running := 0
		for _, j := range r.list() {
			if j.State == jobs.Running {
				running++
			}
			if j.State == jobs.Pending || time.Since(j.Since) < 5*time.Second {
				return false
			}
		}
		return running <= len(r.workers)
	})
	r.stopWorkers()
}
