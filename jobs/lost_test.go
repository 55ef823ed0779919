package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// numbering is a kind whose runs write the numbers that follow those in their target, up to a
// goal, each in a transaction that is refused if the number is there.
type numbering struct {
	fakeKind
	db   *jobdb.DB
	node string
}

var errRefused = errors.New("something else has written the number")

func (n numbering) Run(ctx context.Context, s *jobs.Session) error {
	id := s.Document.ID()
	var last, goal int
	err := n.db.View(ctx, func(tx jobdb.Tx) error {
		_, err := jobdb.One(ctx, tx, "SELECT coalesce(max(number), 0) FROM @number WHERE job = $1", []any{id}, &last)
		return err
	})
	for err == nil && ctx.Err() == nil {
		err = n.db.Begin(context.WithoutCancel(ctx), func(tx jobdb.Tx) error { // as if the write was on its way
			ctx := context.WithoutCancel(ctx)
			if _, err := jobdb.One(ctx, tx, "SELECT goal FROM @goal", nil, &goal); err != nil || last >= goal {
				return err
			}
			changed, err := tx.Exec(ctx, "INSERT INTO @number (job, number, node, at) VALUES ($1, $2, $3, @now) ON CONFLICT DO NOTHING", id, last+1, n.node)
			if err == nil && changed == 0 {
				err = errRefused
			}
			return err
		})
		if errors.Is(err, errRefused) {
			return errors.Join(err, n.db.Begin(context.WithoutCancel(ctx), func(tx jobdb.Tx) error {
				_, err := tx.Exec(context.WithoutCancel(ctx), "INSERT INTO @refused (job, node) VALUES ($1, $2)", id, n.node)
				return err
			}))
		}
		if last >= goal {
			return err
		}
		last++
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return err
}

// TestLostNodes has three processes on PostgreSQL: one is killed, and one is frozen until its
// jobs run elsewhere.
func TestLostNodes(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("lost")
	db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := jobs.NewScheduler(db, jobs.Kinds{"number": numbering{}}, jobs.Defaults())
	exec(t, db, "CREATE TABLE @number (job text, number bigint, node text, at bigint, PRIMARY KEY (job, number))")
	exec(t, db, "CREATE TABLE @refused (job text, node text)")
	exec(t, db, "CREATE TABLE @goal (goal bigint)")
	exec(t, db, "INSERT INTO @goal (goal) VALUES (1000000)")
	const each, many = 20, 60
	documents := make([]jobs.Document, many)
	for n := range documents {
		documents[n] = jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "number", Source: fmt.Sprint("s", n)}
	}
	apply(t, store, documents...)
	number := func(sql string, args ...any) (n int) {
		t.Helper()
		err := db.View(t.Context(), func(tx jobdb.Tx) error {
			_, err := jobdb.One(t.Context(), tx, sql, args, &n)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	await := func(what string, want int, sql string, args ...any) {
		t.Helper()
		for end := time.Now().Add(time.Minute); number(sql, args...) != want; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d, want %d", what, number(sql, args...), want)
			}
		}
	}
	const wrote = "SELECT count(DISTINCT job) FROM @number WHERE node = $1"
	killed := startNode(t, "killed", each, url)
	await("jobs of the first node", each, wrote, "killed")
	frozen := startNode(t, "frozen", each, url)
	await("jobs of the second node", each, wrote, "frozen")
	rest := startNode(t, "rest", many, url)
	await("jobs of the third node", many-2*each, wrote, "rest")

	exec(t, db, "UPDATE @goal SET goal = (SELECT max(number) + 30 FROM @number)") // three seconds more
	at := number("SELECT @now")
	frozen.signal(t, syscall.SIGSTOP)
	killed.kill()
	await("jobs of the third node", many, wrote, "rest")
	frozen.signal(t, syscall.SIGCONT)
	await("writes of the frozen node that were refused", each, "SELECT count(*) FROM @refused WHERE node = 'frozen'")
	await("jobs that have completed", many, "SELECT count(*) FROM @job WHERE state = 'completed'")
	rest.signal(t, syscall.SIGTERM)
	frozen.signal(t, syscall.SIGTERM)
	if err := errors.Join(rest.Wait(), frozen.Wait()); err != nil {
		t.Error(err)
	}

	if n := number("SELECT count(*) FROM @refused"); n != each {
		t.Errorf("%d writes were refused, want those of the frozen node only", n)
	}
	goal := number("SELECT goal FROM @goal")
	if n := number("SELECT count(*) FROM (SELECT job FROM @number GROUP BY job HAVING count(*) = $1 AND min(number) = 1 AND max(number) = $1) AS whole", goal); n != many {
		t.Errorf("%d of %d targets have the numbers to %d", n, many, goal)
	}
	if n := number("SELECT count(*) FROM @event WHERE type IN ('crashed', 'failed')"); n != 0 {
		t.Errorf("%d runs changed their jobs after they had failed, want none: they had no jobs any more", n)
	}
	var took []time.Duration
	err = db.View(t.Context(), func(tx jobdb.Tx) error {
		return jobdb.Each(t.Context(), tx, "SELECT min(at) - $1 FROM @number WHERE node = 'rest' AND at > $1 AND job IN (SELECT job FROM @number WHERE node <> 'rest') GROUP BY job", []any{at}, func(scan func(...any) error) error {
			var micros int64
			err := scan(&micros)
			took = append(took, time.Duration(micros)*time.Microsecond)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	p99 := took[(len(took)-1)*99/100]
	t.Logf("%d jobs of lost nodes wrote elsewhere after %v to %v", len(took), took[0].Round(time.Millisecond), p99.Round(time.Millisecond))
	if len(took) != 2*each || p99 > 30*time.Second {
		t.Errorf("%d jobs of lost nodes wrote elsewhere, 99%% of them within %v, want %d within 30s", len(took), p99, 2*each)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
