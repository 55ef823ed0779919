package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// numbering is a kind whose runs write two numbers, which follow the last number in their target:
// one at the start, and one when the gate is open. A write is refused if the number is already
// there.
type numbering struct {
	fakeKind
	db        *jobdb.DB
	url, node string
}

// gate is the advisory lock that runs wait for.
const gate = 12

var errRefused = errors.New("something else has written the number")

func (n numbering) Run(ctx context.Context, s *jobs.Session) error {
	ctx = context.WithoutCancel(ctx) // as if the writes were already under way
	id := s.Document.ID()
	var last int
	err := n.db.View(ctx, func(tx jobdb.Tx) error {
		_, err := jobdb.One(ctx, tx, "SELECT coalesce(max(number), 0) FROM @number WHERE job = $1 AND NOT refused", []any{id}, &last)
		return err
	})
	if err == nil {
		err = n.write(ctx, id, last+1)
	}
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, n.url) // not from the pool, which the node needs
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1)", gate); err != nil {
		return err
	}
	return errors.Join(n.write(ctx, id, last+2), conn.Close(ctx))
}

// write writes a number. If it is already there, write records that the number was refused.
func (n numbering) write(ctx context.Context, id string, number int) error {
	var refused bool
	err := n.db.Begin(ctx, func(tx jobdb.Tx) error {
		const insert = "INSERT INTO @number (job, number, node, at, refused) VALUES ($1, $2, $3, @now, false) ON CONFLICT DO NOTHING"
		written, err := tx.Exec(ctx, insert, id, number, n.node)
		if refused = written == 0; err != nil || !refused {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO @number (job, number, node, at, refused) VALUES ($1, $2, $3, @now, true)", id, number, n.node)
		return err
	})
	if err == nil && refused {
		err = errRefused
	}
	return err
}

// TestLostNodes runs three processes on PostgreSQL: one is killed, and one is frozen until its jobs
// have run elsewhere. After that, the runs of the frozen process continue.
func TestLostNodes(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("lost")
	db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &lostTest{t, db}
	exec(t, db, "CREATE TABLE @number (job text, number bigint, node text, at bigint, refused boolean)")
	exec(t, db, "CREATE UNIQUE INDEX ON @number (job, number) WHERE NOT refused")
	closed, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Exec(t.Context(), "SELECT pg_advisory_lock($1)", gate); err != nil {
		t.Fatal(err)
	}
	each, many := 20, 60
	documents := make([]jobs.Document, many)
	for n := range documents {
		documents[n] = jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "number", Source: fmt.Sprint("s", n)}
	}
	apply(t, jobs.NewScheduler(db, jobs.Kinds{"number": numbering{}}, jobs.Defaults()), documents...)

	const wrote = "SELECT count(DISTINCT job) FROM @number WHERE node = $1"
	killed := startNode(t, "killed", each, url)
	l.await(each, wrote, "killed")
	frozen := startNode(t, "frozen", each, url)
	l.await(each, wrote, "frozen")
	rest := startNode(t, "rest", many, url)
	l.await(many-2*each, wrote, "rest")
	at := l.number("SELECT @now")
	frozen.signal(t, syscall.SIGSTOP)
	killed.kill()
	l.await(many, wrote, "rest")
	if err := closed.Close(t.Context()); err != nil { // opens the gate
		t.Fatal(err)
	}
	const completed = "SELECT count(*) FROM @job WHERE state = 'completed'"
	l.await(many, completed)
	l.awaitNone("SELECT count(*) FROM @river_job WHERE state IN ('available', 'running')") // including the runs of the lost nodes
	hold, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.Exec(t.Context(), "BEGIN; LOCK TABLE feedctl_jobs.node IN EXCLUSIVE MODE"); err != nil { // so that no heartbeat tells the node that it is lost
		t.Fatal(err)
	}
	frozen.signal(t, syscall.SIGCONT)
	l.awaitNone("SELECT count(*) FROM @number AS first WHERE node = 'frozen' AND NOT refused AND NOT EXISTS (SELECT 1 FROM @number AS late WHERE late.node = 'frozen' AND late.job = first.job AND late.number > first.number)")
	if err := hold.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	frozen.signal(t, syscall.SIGTERM)
	if err := frozen.Wait(); err != nil {
		t.Error(err)
	}
	rest.signal(t, syscall.SIGTERM)
	if err := rest.Wait(); err != nil {
		t.Error(err)
	}

	if n := l.number("SELECT count(*) FROM @number AS late WHERE node = 'frozen' AND NOT refused AND EXISTS (SELECT 1 FROM @number AS first WHERE first.job = late.job AND first.node = 'rest' AND first.number < late.number)"); n != 0 {
		t.Errorf("%d late writes of the frozen node were not refused", n)
	}
	const whole = "SELECT count(*) FROM (SELECT 1 FROM @number WHERE NOT refused GROUP BY job HAVING min(number) = 1 AND max(number) = count(*) AND count(*) >= 2) AS whole"
	if n := l.number(whole); n != many {
		t.Errorf("%d of %d targets are complete", n, many)
	}
	if n := l.number(completed); n != many {
		t.Errorf("%d of %d jobs are completed after the frozen node has ended", n, many)
	}
	if n := l.number("SELECT count(*) FROM @event WHERE type IN ('crashed', 'failed')"); n != 0 {
		t.Errorf("%d failed runs changed jobs that another node had taken over", n)
	}
	l.logHealing(at)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

type lostTest struct {
	*testing.T
	db *jobdb.DB
}

// number returns the number that a statement results in.
func (t *lostTest) number(sql string, args ...any) (n int) {
	t.Helper()
	err := t.db.View(t.Context(), func(tx jobdb.Tx) error {
		_, err := jobdb.One(t.Context(), tx, sql, args, &n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// await waits until a statement returns at least the given number.
func (t *lostTest) await(want int, sql string, args ...any) {
	t.Helper()
	t.until(func(n int) bool { return n >= want }, sql, args...)
}

// awaitNone waits until a statement returns 0.
func (t *lostTest) awaitNone(sql string, args ...any) {
	t.Helper()
	t.until(func(n int) bool { return n == 0 }, sql, args...)
}

func (t *lostTest) until(holds func(n int) bool, sql string, args ...any) {
	t.Helper()
	for ticks := time.Tick(100 * time.Millisecond); !holds(t.number(sql, args...)); {
		<-ticks
	}
}

// logHealing logs how long after the given time the jobs of lost nodes first wrote on other nodes.
func (t *lostTest) logHealing(since int) {
	var took []time.Duration
	err := t.db.View(t.Context(), func(tx jobdb.Tx) error {
		const sql = "SELECT min(at) - $1 FROM @number WHERE node = 'rest' AND at > $1 AND job IN (SELECT job FROM @number WHERE node <> 'rest') GROUP BY job"
		return jobdb.Each(t.Context(), tx, sql, []any{since}, func(scan func(...any) error) error {
			var micros int64
			err := scan(&micros)
			took = append(took, time.Duration(micros)*time.Microsecond)
			return err
		})
	})
	if err != nil || len(took) == 0 {
		t.Fatalf("no job of a lost node wrote on another node: %v", err)
	}
	slices.Sort(took)
	t.Logf("%d jobs of lost nodes wrote on other nodes after %v to %v", len(took), took[0].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}
