package jobs_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestPlans checks, with 10,000 jobs, or fewer with -short, that the databases execute the statements of lists and
// descriptions without reading all jobs.
func TestPlans(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("plans"),
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{Before: func(_ context.Context, sql string) { sent = append(sent, sql) }})
			if err != nil {
				t.Fatal(err)
			}
			s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
			var documents []jobs.Document
			many := 10_000
			if testing.Short() {
				many = 3000
			}
			for n := range many {
				d := jobs.Document{Namespace: fmt.Sprint("n", n%10), Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint(n), Follow: true}
				d.Paused = n%100 > 0 // most jobs do not wait for a slot
				documents = append(documents, d)
			}
			apply(t, s, documents...)
			exec(t, db, "ANALYZE")
			for what, query := range map[string]func() error{
				"first page": func() error { _, err := s.List(t.Context(), jobs.Filter{}); return err },
				"next page": func() error {
					_, err := s.List(t.Context(), jobs.Filter{After: "n5/5005", Limit: 10})
					return err
				},
				"page of a namespace": func() error {
					_, err := s.List(t.Context(), jobs.Filter{Namespace: "n5", After: "n5/5005"})
					return err
				},
				"page within namespaces": func() error {
					_, err := s.List(jobs.Within(t.Context(), "n4", "n5"), jobs.Filter{After: "n5/5005"})
					return err
				},
				"page of a state": func() error {
					_, err := s.List(t.Context(), jobs.Filter{States: []jobs.State{jobs.Running}})
					return err
				},
				"description": func() error { _, err := s.Describe(t.Context(), "n0/100"); return err },
			} {
				sent = nil
				if err := query(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, sql := range slices.Clone(sent) {
					if plan := explain(t, db, name, sql); readsAll.MatchString(plan) {
						t.Errorf("%s reads all jobs:\n%s\n%s", what, sql, plan)
					}
				}
			}
			if plan := explain(t, db, name, "SELECT id FROM @job WHERE kind = $1"); !readsAll.MatchString(plan) {
				t.Errorf("readsAll does not match the plan of a query without an index:\n%s", plan)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// readsAll matches plans that read a whole table of jobs, in both databases.
var readsAll = regexp.MustCompile(`Seq Scan on job\b|(?m)^SCAN (j|o|job)$`)

// parameter matches a parameter of a statement.
var parameter = regexp.MustCompile(`\$([0-9]+)`)

// explain returns the plan of a statement for unknown arguments.
func explain(t *testing.T, db *jobdb.DB, database, sql string) string {
	t.Helper()
	count := 0
	for _, match := range parameter.FindAllStringSubmatch(sql, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		count = max(count, n)
	}
	var plan strings.Builder
	err := db.Begin(t.Context(), func(tx jobdb.Tx) error {
		if database == "sqlite" {
			return jobdb.Each(t.Context(), tx, "EXPLAIN QUERY PLAN "+sql, make([]any, count), func(scan func(...any) error) error {
				var id, parent, unused int
				var detail string
				err := scan(&id, &parent, &unused, &detail)
				plan.WriteString(detail + "\n")
				return err
			})
		}
		execute := "EXPLAIN EXECUTE plan"
		if count > 0 {
			execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", count), ", ") + ")"
		}
		for _, statement := range []string{"SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE plan AS " + sql} {
			if _, err := tx.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		err := jobdb.Each(t.Context(), tx, execute, []any{pgx.QueryExecModeSimpleProtocol}, func(scan func(...any) error) error {
			var line string
			err := scan(&line)
			plan.WriteString(line + "\n")
			return err
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), "DEALLOCATE plan")
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return plan.String()
}
