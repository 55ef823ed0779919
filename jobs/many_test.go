package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestMany changes more jobs than fit into one transaction, and interrupts the call between two
// transactions: the remaining jobs stay as they were, and a second call changes them.
func TestMany(t *testing.T) {
	t.Parallel()
	many, atOnce := size(1200, 510), 500
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("many"),
	} {
		t.Run(name, func(t *testing.T) {
			statements, transactions := 0, 0
			stop := func() {}
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Before: func(_ context.Context, sql string) {
				statements++
				if strings.HasPrefix(sql, "SELECT one FROM @mutex") || strings.HasPrefix(sql, "SELECT id FROM @job WHERE id IN") {
					if transactions++; transactions == 2 {
						stop()
					}
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
			var documents []jobs.Document
			var ids []string
			for n := range many {
				documents = append(documents, follower(fmt.Sprint(n), fmt.Sprint("s", n), ""))
				ids = append(ids, documents[n].ID())
			}
			apply(t, s, documents...)
			remove := func(ctx context.Context, ids ...string) (int, error) {
				before := ids
				err := s.Delete(ctx, ids...)
				page, listed := s.Totals(t.Context(), jobs.Filter{})
				left := 0
				for _, n := range page {
					left += n
				}
				return len(before) - left, errors.Join(err, listed)
			}
			for _, verb := range []struct {
				name string
				do   func(ctx context.Context, ids ...string) (int, error)
				most int // statements for each job
			}{{"pause", s.Pause, 2}, {"resume", s.Resume, 2}, {"restart", s.Restart, 2}, {"delete", remove, 0}} {
				ctx, cancel := context.WithCancel(t.Context())
				stop, transactions = cancel, 0
				if n, err := verb.do(ctx, ids...); n != atOnce || !errors.Is(err, context.Canceled) {
					t.Errorf("%s changed %d jobs before it was ended, %v", verb.name, n, err)
				}
				statements, transactions = 0, 10
				n, err := verb.do(t.Context(), ids...)
				want := many - atOnce
				if verb.name == "restart" || verb.name == "delete" { // these also count the jobs that they had already changed
					want = many
				}
				if n != want || err != nil {
					t.Errorf("%s changed %d of the remaining jobs, %v, want %d", verb.name, n, err, want)
				}
				if transactions -= 10; transactions != (many+atOnce-1)/atOnce || statements > verb.most*many+20 {
					t.Errorf("%s took %d transactions and %d statements", verb.name, transactions, statements)
				}
			}
			stop()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
