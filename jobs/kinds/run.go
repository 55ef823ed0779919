package kinds

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/storage"
)

// A runner is a task of package task, used for a single run or a single check.
type runner interface {
	Flags(flags *pflag.FlagSet)
	// Arguments sets everything that a document contains except the options. It is called after the
	// flags are parsed.
	Arguments(d *jobs.Document, c credentials)
	Check() error
	// Run ends when there is nothing more to do or, if idle is not nil, when ctx ends. If idle is not
	// nil, Run calls it after each check for more that began after the previous call and found nothing.
	Run(ctx context.Context, e *task.Env, idle func()) error
}

// A counting runner reports its progress.
type counting interface{ Stats() jobs.Stats }

// reportEvery is the interval between the progress reports of a run.
const reportEvery = time.Second

// Run implements [jobs.Kind]. Credentials are read on the node. If a credential is missing, the run
// fails and is tried again, since the credential may arrive on the node later.
func (k *kind) Run(ctx context.Context, s *jobs.Session) error {
	i := k.Identify(&s.Document)
	return withHint(k.classify(k.run(ctx, s), i))
}

func (k *kind) run(ctx context.Context, s *jobs.Session) (err error) {
	d := &s.Document
	p, problems := k.parse(d)
	if len(problems) > 0 { // the document was accepted by a node with a different version
		return fmt.Errorf("%w: %w", jobs.ErrRejected, jobs.InvalidError(problems))
	}
	secrets, err := resolve(p)
	if err != nil {
		return err
	}
	p.runner.Arguments(d, secrets)
	e := &task.Env{Log: s.Logger, Transport: &activeTransport{s.Transport, s.Active}, Shared: k.shared, FailFast: true}
	e.Opened = func(store storage.Store) storage.Store { return newActiveStore(store, s.Active) }
	defer func() { err = e.Close(err) }()
	if c, ok := p.runner.(counting); ok {
		err = runCounting(ctx, s, e, p.runner, c)
	} else {
		err = p.runner.Run(ctx, e, nil)
	}
	if r, ok := p.runner.(interface{ Result() string }); ok && err == nil {
		s.Result(r.Result())
	}
	return err
}

// runCounting runs a task, and reports its progress.
func runCounting(ctx context.Context, s *jobs.Session, e *task.Env, r runner, c counting) error {
	w := &waiting{session: s, stats: c.Stats}
	reporting, stop := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { report(reporting, s, w) })
	defer func() {
		stop()
		reports.Wait()
		s.Report(c.Stats())
	}()
	var idle func()
	if s.Linger {
		idle = w.idle
	}
	return r.Run(ctx, e, idle)
}

// report reports the progress of a run until ctx ends.
func report(ctx context.Context, s *jobs.Session, w *waiting) {
	ticks := time.NewTicker(reportEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		now := w.stats()
		if s.Linger {
			now = w.look()
		}
		s.Report(now)
	}
}

// A waiting tells the session whether a run has caught up. The run is busy once it has processed
// something, and has caught up again when a later check finds no more.
type waiting struct {
	session interface {
		CaughtUp()
		Busy()
	}
	stats func() jobs.Stats

	mu      sync.Mutex
	checked int64 // the number of entities processed when a check last found no more
}

// idle is called after each check that has found no more.
func (w *waiting) idle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checked = w.stats().Entities
	w.session.CaughtUp()
}

// look returns the statistics, and calls Busy if the run has processed something since the last check.
func (w *waiting) look() jobs.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.stats()
	if now.Entities != w.checked {
		w.session.Busy()
	}
	return now
}

// statsOf converts the progress of a task to statistics.
func statsOf(p progress.Status) jobs.Stats {
	return jobs.Stats{Entities: p.Entities, Bytes: p.Bytes, Pending: -1, Lag: -1}
}

// resolve reads the passwords of databases. It only checks that the other credentials exist, since the
// task reads them itself.
func resolve(p *parsed) (c credentials, err error) {
	for use, side := range map[string]struct {
		place    place
		source   *credential.Source
		password *string
	}{
		"source": {p.source, &c.source, &c.sourcePassword},
		"target": {p.target, &c.target, &c.targetPassword},
	} {
		reference := p.Credentials[use]
		if reference == "" {
			continue
		}
		if *side.source, err = credential.ParseReference(reference); err != nil {
			return c, fmt.Errorf("credentials.%s: %w", use, err)
		}
		switch side.place.takes {
		case password:
			*side.password, err = side.source.ReadPassword()
			*side.source = credential.Source{} // from now on, the password is in the URL
		case couchCredential:
			_, err = side.source.ReadCouch()
		default:
			_, err = side.source.Read()
		}
		if err != nil {
			return c, fmt.Errorf("credentials.%s: %w", use, err)
		}
	}
	return c, nil
}
