package jobdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// A RunArgs names a run. Each run has a row of its own in River's table.
type RunArgs struct {
	Job   string `json:"job"`
	Epoch int64  `json:"epoch"`
}

// Kind implements [river.JobArgs].
func (RunArgs) Kind() string { return "run" }

const (
	// pollEvery is the interval at which the queue is read if there is no notification.
	pollEvery = 10 * time.Second
	// keepRuns and keepFailedRuns are how long runs are shown after they have ended. Jobs do not depend on
	// these rows.
	keepRuns       = time.Hour
	keepFailedRuns = 24 * time.Hour
)

// A Queue executes runs on nodes.
type Queue interface {
	// Serve makes the queue execute the runs of a node from now on, at most slots at the same time, and no
	// further runs of the node that it served before.
	Serve(node string, slots int) error
	// Insert adds a run for a node in a transaction.
	Insert(ctx context.Context, tx Tx, node string, args RunArgs) error
	// Inserted makes the queue read the runs of a node at once. It is called after a transaction that has
	// added runs is committed.
	Inserted(node string)
	// CancelLost cancels runs of nodes that are lost or have left, whose rows would otherwise
	// stay active. Each call cancels a part of them, the oldest first.
	CancelLost(ctx context.Context, tx Tx) error
	// Stop waits for the runs to end. When ctx ends, the contexts of the runs are cancelled.
	Stop(ctx context.Context) error
}

// QueueConfig holds the settings of [DB.StartQueue].
type QueueConfig struct {
	// Work executes a run. Its error is shown with the run, and has no other effect.
	Work   func(ctx context.Context, args RunArgs) error
	Logger *slog.Logger // gets warnings and errors of River
}

// StartQueue starts a queue that serves no node yet.
func (db *DB) StartQueue(ctx context.Context, c QueueConfig) (Queue, error) {
	q, err := db.driver.queue(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start queue of runs: %w", err)
	}
	return q, nil
}

// A queue is a [Queue] on one kind of database.
type queue[TTx any] struct {
	client *river.Client[TTx]
	driver riverdriver.Driver[TTx]
	schema string
	added  chan<- string
	unwrap func(Tx) TTx

	node     string         // the node that is served
	removing sync.WaitGroup // waits for the removal of nodes that were served before
}

func newQueue[TTx any](ctx context.Context, d riverdriver.Driver[TTx], unwrap func(Tx) TTx, schema string, c QueueConfig) (Queue, error) {
	l := newLocal(d)
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &worker{work: c.Work}); err != nil {
		return nil, err
	}
	client, err := river.NewClient(l, &river.Config{
		Logger:                      slog.New(warnings{c.Logger.Handler()}),
		Queues:                      map[string]river.QueueConfig{"none": {MaxWorkers: 1, FetchPollInterval: 24 * time.Hour}}, // River requires a queue at the start
		FetchPollInterval:           pollEvery,
		CompletedJobRetentionPeriod: keepRuns,
		CancelledJobRetentionPeriod: keepRuns,
		DiscardedJobRetentionPeriod: keepFailedRuns,
		Schema:                      schema,
		Workers:                     workers,
	})
	if err != nil {
		return nil, err
	}
	return &queue[TTx]{client: client, driver: l, schema: schema, added: l.added, unwrap: unwrap}, client.Start(context.WithoutCancel(ctx))
}

// removeWithin is how long the runs of a node that is no longer served may take to end.
const removeWithin = 30 * time.Second

func (q *queue[TTx]) Serve(node string, slots int) error {
	if err := q.client.Queues().Add(node, river.QueueConfig{MaxWorkers: slots}); err != nil {
		return err
	}
	before := q.node
	q.node = node
	if before != "" {
		q.removing.Go(func() { // Remove waits for the runs
			ctx, cancel := context.WithTimeout(context.Background(), removeWithin)
			defer cancel()
			_ = q.client.Queues().Remove(ctx, before) // after an error, too, the queue takes no more runs of this node
		})
	}
	return nil
}

// cancelAtOnce is the maximum number of runs that one call of CancelLost cancels.
const cancelAtOnce = 500

func (q *queue[TTx]) CancelLost(ctx context.Context, tx Tx) error {
	var waiting, running []int64
	const lost = `SELECT id, state = 'running' FROM @river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
		AND queue NOT IN (SELECT incarnation FROM @node WHERE NOT lost) ORDER BY id LIMIT $1`
	err := Each(ctx, tx, lost, []any{cancelAtOnce}, func(scan func(...any) error) error {
		var id int64
		var runs bool
		err := scan(&id, &runs)
		if runs {
			running = append(running, id)
		} else {
			waiting = append(waiting, id)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range waiting {
		if _, err := q.client.JobCancelTx(ctx, q.unwrap(tx), id); err != nil && !errors.Is(err, river.ErrNotFound) {
			return err
		}
	}
	if len(running) == 0 {
		return nil
	}
	// JobCancelTx is not enough for these, since it leaves it to the node to end a run.
	at, many := time.Now(), len(running)
	_, err = q.driver.UnwrapExecutor(q.unwrap(tx)).JobSetStateIfRunningMany(ctx, &riverdriver.JobSetStateIfRunningManyParams{
		ID: running, Schema: q.schema,
		State:       slices.Repeat([]rivertype.JobState{rivertype.JobStateCancelled}, many),
		FinalizedAt: slices.Repeat([]*time.Time{&at}, many),
		Attempt:     make([]*int, many), ErrData: make([][]byte, many), ScheduledAt: make([]*time.Time, many),
		MetadataDoMerge: make([]bool, many), MetadataUpdates: make([][]byte, many),
	})
	return err
}

func (q *queue[TTx]) Insert(ctx context.Context, tx Tx, node string, args RunArgs) error {
	_, err := q.client.InsertTx(ctx, q.unwrap(tx), args, &river.InsertOpts{Queue: node, MaxAttempts: 1})
	return err
}

func (q *queue[TTx]) Inserted(node string) {
	select {
	case q.added <- node:
	default: // the previous notification has not been read yet, and is enough
	}
}

func (q *queue[TTx]) Stop(ctx context.Context) error {
	defer q.removing.Wait()
	if err := q.client.Stop(ctx); ctx.Err() == nil || err == nil {
		return err
	}
	return q.client.StopAndCancel(context.WithoutCancel(ctx))
}

// A worker executes the runs that River gives it.
type worker struct {
	river.WorkerDefaults[RunArgs]
	work func(ctx context.Context, args RunArgs) error
}

func (w *worker) Work(ctx context.Context, job *river.Job[RunArgs]) error {
	return w.work(ctx, job.Args)
}

// Timeout returns -1, which means that a run may take any time. It is the scheduler that ends runs.
func (w *worker) Timeout(*river.Job[RunArgs]) time.Duration { return -1 }

// migrateQueue migrates River's tables. Some of its migrations cannot share a transaction.
func migrateQueue[TTx any](ctx context.Context, d riverdriver.Driver[TTx], schema string) error {
	m, err := rivermigrate.New(d, &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate queue of runs: %w", err)
	}
	return nil
}

// warnings is a handler that drops records below the level of warnings, of which River writes many.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }
