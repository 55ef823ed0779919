package e2e

import (
	"context"
	"flag"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
)

var (
	jobsSteps  = flag.Int("jobs-steps", 9, "faults and commands of TestJobs, each after a burst of changes")
	jobsWrites = flag.Int("jobs-writes", 5, "changes of each database in a burst of TestJobs, on average; of rows, 20 times that")
)

// TestJobs runs jobs of all kinds on workers that have fewer slots than there are jobs. While
// their sources change, jobs are paused, resumed, restarted, changed, deleted and created again,
// and workers and the database are killed, frozen and restarted at random points. Then all feeds
// and copies must be as if none of that had happened.
func TestJobs(t *testing.T) {
	t.Parallel()
	newSeed(t)
	for name, several := range map[string]bool{"postgres": true, "sqlite": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newJobsRig(t, several)
			defer r.summarize()
			r.checkKinds()
			for step := range *jobsSteps {
				r.step(step)
				r.steps++
			}
			r.calm()
			r.drain()
			r.checkFeeds()
			r.checkRecords()
			r.checkCopies()
			r.checkEnded()
		})
	}
}

// checkKinds checks that there is a job of each kind.
func (r *jobsRig) checkKinds() {
	for kind := range kinds.All() {
		if !slices.ContainsFunc(r.jobs, func(j *chaosJob) bool { return j.kind == kind }) {
			r.t.Errorf("there is no job of kind %s", kind)
		}
	}
}

// checkFeeds compares feeds with what was written to their sources.
func (r *jobsRig) checkFeeds() {
	for n, w := range r.writers {
		feed := docsFeed(n)
		r.equalDatabases(w.db, r.couchDB(feed+"-couchdb"))
		r.verify(feed)
	}
	for n := range r.written {
		feed := rowsFeed(n)
		r.verify(feed)
		numbers := r.numbers(feed)
		r.compared += r.written[n]
		if len(numbers) != r.written[n] {
			r.differs("feed %s has %d rows, want %d", feed, len(numbers), r.written[n])
		}
		for i, number := range numbers {
			if number != i+1 {
				r.differs("feed %s: row %d is %d", feed, i+1, number)
				break
			}
		}
	}
}

func (r *jobsRig) verify(feed string) {
	feedctl(r.t, "verify", r.base(0)+"/feeds/"+feed)
	feedctl(r.t, "verify", feed, "--store", r.store)
}

// checkCopies compares each copy with the copy that an undisturbed run makes.
func (r *jobsRig) checkCopies() {
	for _, j := range r.jobs {
		if j.kind != "consume" {
			continue
		}
		fresh := r.into(j.sink, j.name+"-undisturbed")
		r.consume(j, fresh)
		if j.sink == "couchdb" {
			r.equalDatabases(strings.TrimPrefix(j.target, "couchdb:"), strings.TrimPrefix(fresh, "couchdb:"))
			continue
		}
		got, want := r.mustRead(j.sink, j.target), r.mustRead(j.sink, fresh)
		r.compared += len(want)
		if diff := cmp.Diff(want, got); diff != "" {
			r.differs("%s differs from an undisturbed copy: %s", j.name, diff)
		}
		if len(want) == 0 {
			r.differs("%s is empty", j.name)
		}
	}
}

func (r *jobsRig) equalDatabases(a, b string) {
	differences, err := couchdiff.Compare(r.t.Context(), a, b)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range differences {
		r.differs("%s and %s: %s", a, b, d)
	}
	var all struct {
		Rows []struct{} `json:"rows"`
	}
	if _, err := (&couchWriter{db: b}).do(r.t.Context(), http.MethodGet, "/_all_docs", nil, &all); err != nil {
		r.t.Fatal(err)
	}
	r.compared += len(all.Rows)
}

// read returns the contents of a sink, as lines.
func (r *jobsRig) read(sink, target string) ([]string, error) {
	switch sink {
	case "jsonl":
		text, err := os.ReadFile(strings.TrimPrefix(target, "jsonl:"))
		return strings.SplitAfter(string(text), "\n"), err
	case "dir":
		return readDirectory(strings.TrimPrefix(target, "dir:"))
	case "sqlite":
		path, _, _ := strings.Cut(strings.TrimPrefix(target, "sqlite:"), "?")
		return readSQLite(path)
	case "kinto":
		return r.readKinto(strings.TrimPrefix(target, "kinto:")), nil
	}
	return readPostgres(r.t.Context(), target)
}

// readDirectory returns the files of a sink, and the metadata that it keeps about them.
func readDirectory(dir string) (lines []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir)
		if err != nil || entry.IsDir() || strings.HasPrefix(name, "/.feedctl/") && !strings.HasPrefix(name, "/.feedctl/meta/") {
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, name+": "+string(text))
		return err
	})
	return lines, err
}

func readSQLite(path string) (lines []string, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	const all = "SELECT json_array(key, content_type, last_modified, content_id, headers, hex(body)) FROM copy ORDER BY key"
	err = sqlitex.Execute(conn, all, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		lines = append(lines, row.ColumnText(0))
		return nil
	}})
	return lines, err
}

// readPostgres returns the rows of a sink.
func readPostgres(ctx context.Context, target string) ([]string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	table := pgx.Identifier{query.Get("table")}
	query.Del("table")
	u.RawQuery = query.Encode()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT row_to_json(t)::text FROM "+table.Sanitize()+" AS t ORDER BY key")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// mustRead is like read, but fails the test if the sink cannot be read.
func (r *jobsRig) mustRead(sink, target string) []string {
	lines, err := r.read(sink, target)
	if err != nil {
		r.t.Fatal(err)
	}
	return lines
}

// checkEnded stops the workers, and runs the command of each job that follows once more: no lock may be left, and there
// must be nothing to do.
func (r *jobsRig) checkEnded() {
	r.retire()
	for name, j := range r.list() {
		if j.State != jobs.Idle && j.State != jobs.Completed {
			r.t.Errorf("job %s is %s after the end, want idle or completed\n%s", name, j.State, r.command("describe", name))
		}
	}
	before := r.counts()
	for _, j := range r.jobs {
		switch j.kind {
		case "consume":
			r.consume(j, j.target)
		case "bridge couchdb":
			feedctl(r.t, "bridge", "couchdb", j.source, j.target, "--index", r.path(j.name+".index"), "--revs", "--conflicts", "--design-docs", "--attachments", "multipart", "--log-level", "error")
		case "bridge kinto":
			feedctl(r.t, "bridge", "kinto", j.source, j.target, "--index", r.path(j.name+".index"), "--credentials-file", r.credential(), "--log-level", "error")
		case "outbox run":
			feedctl(r.t, "outbox", "run", "--db", j.source, "--store", j.target, "--feed", j.name, "--once", "--log-level", "error")
		}
	}
	if diff := cmp.Diff(before, r.counts()); diff != "" {
		r.differs("commands changed what jobs had completed: %s", diff)
	}
}

// counts returns the sizes of all feeds and copies.
func (r *jobsRig) counts() map[string]int {
	sizes := map[string]int{recordsFeed: len(readFeed(r.t, r.base(0)+"/feeds/"+recordsFeed))}
	for n := range r.writers {
		sizes[docsFeed(n)] = len(readFeed(r.t, r.base(0)+"/feeds/"+docsFeed(n)))
	}
	for n := range r.written {
		sizes[rowsFeed(n)] = len(r.numbers(rowsFeed(n)))
	}
	for _, j := range r.jobs {
		if j.kind == "consume" && j.sink != "couchdb" {
			sizes[j.name] = len(strings.Join(r.mustRead(j.sink, j.target), ""))
		}
	}
	return sizes
}
