package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/internal/installed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
)

// A generation runs the commands of one version of feedctl: this one or the previous one.
type generation struct {
	t      *testing.T
	name   string
	binary string
}

// generations returns the previous version of feedctl and this one, each twice, in the order of an upgrade, a rollback
// and another upgrade: each version meets what the other has written.
func generations(t *testing.T) []generation {
	t.Helper()
	path, err := installed.Previous()
	if err != nil {
		t.Fatal(err)
	}
	before, now := generation{t, "the previous feedctl", path}, generation{t, "this feedctl", binary}
	return []generation{before, now, before, now}
}

// command returns a command that does not read the configuration of the user.
func (g generation) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.binary, args...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+g.t.TempDir())
	return cmd
}

// run runs a command that must succeed and print some text.
func (g generation) run(stdin, want string, args ...string) {
	g.t.Helper()
	cmd := g.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
		g.t.Fatalf("%s: %v: %v, want %q:\n%s", g.name, args, err, want, out)
	}
}

// refuses runs a command that must fail with an error that says why.
func (g generation) refuses(why string, args ...string) {
	g.t.Helper()
	out, err := g.command(args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), why) {
		g.t.Errorf("%s: %v: %v, want an error with %q:\n%s", g.name, args, err, why, out)
	}
}

// rows returns the rows of the table of a sink, or none if the table does not exist.
func rows(path string) (all []string) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = sqlitex.Execute(conn, "SELECT key, content_id, body FROM entities ORDER BY key", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		all = append(all, row.ColumnText(0)+" "+row.ColumnText(1)+" "+row.ColumnText(2))
		return nil
	}})
	return all
}

// ten returns ten lines. The first of them has the key of the last line of ten(n-1).
func ten(n int) string {
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, "{\"id\":%d,\"event\":\"e-%d-%d\",\"n\":%d}\n", 9*n+i, n, i, n)
	}
	return lines.String()
}

// TestPrevious: each of two versions of feedctl reads and continues the feeds, snapshots, digests and sinks that the
// other has written.
func TestPrevious(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(*testing.T) string{
		"file":     func(t *testing.T) string { return "file:" + filepath.Join(t.TempDir(), "store") },
		"s3":       func(t *testing.T) string { return s3test.Start(t).URL("previous") },
		"postgres": func(t *testing.T) string { return pgtest.Start(t).URL("previous") },
	} {
		t.Run(kind, func(t *testing.T) {
			store, sinks := start(t), t.TempDir()
			config := filepath.Join(t.TempDir(), "config.yaml")
			settings := "store: '" + store + "'\npublish:\n  max-page-entities: 7\n  key: /id\n  content-id: /event\n"
			if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			into := "sqlite:" + filepath.Join(sinks, "both.db")
			for n, g := range generations(t) {
				g.t = t
				if n == 0 {
					g.run("", "", "init", store)
				}
				g.run(ten(n), "published 10 entities", "publish", "zones", "--config", config)
				g.run(ten(n), "10 duplicates", "publish", "zones", "--config", config)
				g.run("", "consumed 10 entities", "consume", "zones", "--config", config, "--into", into)
				g.run("", fmt.Sprintf("%d entities", 10*(n+1)), "verify", "zones", "--config", config)
				g.run("", "", "status", into)
				g.run("", fmt.Sprintf("of %d entities", 9*(n+1)+1), "snapshot", "from-feed", "zones", "--config", config)
				g.run("", "", "digest", "zones", "--config", config)
			}
			want := rows(filepath.Join(sinks, "both.db"))
			for n, g := range generations(t)[:2] { // this feedctl made the last snapshot and digest, the previous one made those before
				g.t = t
				for _, from := range []string{"beginning", "snapshot"} {
					path := filepath.Join(sinks, fmt.Sprint(from, n, ".db"))
					g.run("", "consumed ", "consume", "zones", "--config", config, "--into", "sqlite:"+path, "--from", from)
					if got := rows(path); len(got) != 37 || !slices.Equal(got, want) && from == "beginning" {
						t.Errorf("%s: from the %s: rows\n%q, want\n%q", g.name, from, got, want)
					}
				}
				g.run("", "", "reconcile", "zones", "--config", config, "--into", into)
				g.run("", "no violations", "verify", "--index", "zones", "--config", config)
			}
		})
	}
}

// TestPreviousServer: a server of one version works with a publisher and a consumer of the other.
func TestPreviousServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, into := "file:"+filepath.Join(dir, "store"), "sqlite:"+filepath.Join(dir, "zones.db")
	all := generations(t)
	all[0].run("", "", "init", store)
	for n, g := range all {
		urlFile := filepath.Join(dir, fmt.Sprint("url", n))
		server := &process{t: t, name: g.name, binary: g.binary, args: []string{"serve", "--store", store, "--writable", "--listen", "127.0.0.1:0", "--ready-file", urlFile}}
		server.start()
		t.Cleanup(func() { server.kill(os.Kill) })
		base := ""
		waitFor(t, server.stderr.String, func() bool {
			text, _ := os.ReadFile(urlFile)
			base = strings.TrimSpace(string(text))
			return base != "" || server.ended()
		})
		if base == "" {
			t.Fatalf("%s: %s", g.name, server.stderr)
		}
		client := all[(n+1)%2]
		client.run(ten(n), "published 10 entities", "publish", "zones", "--key", "/id", "--content-id", "/event", "--to", base)
		client.run("", "consumed 10 entities", "consume", base+"/feeds/zones", "--into", into)
		client.run("", "no violations", "verify", base+"/feeds/zones")
		server.kill(syscall.SIGTERM)
	}
	if got := rows(filepath.Join(dir, "zones.db")); len(got) != 37 {
		t.Errorf("%q", got)
	}
}

// TestPreviousJobs: each version runs the jobs of a database, in SQLite or PostgreSQL, that the other has used.
func TestPreviousJobs(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "jobs.db") },
		"postgres": func(t *testing.T) string { return pgtest.Start(t).URL("jobs") },
	} {
		t.Run(kind, func(t *testing.T) {
			db, dir := start(t), t.TempDir()
			store, path := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "zones.db")
			file := filepath.Join(dir, "jobs.yaml")
			text := fmt.Sprintf("version: 1\njobs:\n  - {name: table, kind: consume, source: %q, target: %q, follow: true, placement: {node: here}}\n", store+"#zones", "sqlite:"+path)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for n, g := range generations(t) {
				g.t = t
				g.run(ten(n), "published 10 entities", "publish", store+"#zones", "--key", "/id")
				if n == 0 { // create the database first: otherwise the worker and "jobs apply" would both do so
					none := filepath.Join(dir, "none.yaml")
					if err := os.WriteFile(none, []byte("version: 1\njobs: []\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					g.run("", "", "jobs", "apply", "-f", none, "--db", db)
				}
				want := "0 jobs created, 0 changed, 0 deleted; 1 unchanged"
				if n == 0 {
					want = "1 job created"
				}
				worker := &process{t: t, name: g.name, binary: g.binary, args: []string{"jobs", "worker", "--db", db, "--name", "here", "--log-level", "error"}}
				worker.start()
				t.Cleanup(func() { worker.kill(os.Kill) })
				waitForCommand(t, worker.stderr.String, func() bool { // until the node is known
					out, err := g.command("jobs", "apply", "-f", file, "--db", db).CombinedOutput()
					return worker.ended() || err == nil && strings.Contains(string(out), want)
				})
				waitFor(t, worker.stderr.String, func() bool {
					return worker.ended() || len(rows(path)) == 9*(n+1)+1
				})
				g.run("", "default/table", "jobs", "list", "--db", db)
				worker.kill(syscall.SIGTERM)
				if got := rows(path); len(got) != 9*(n+1)+1 {
					t.Fatalf("%s: %q\n%s", g.name, got, worker.stderr)
				}
			}
		})
	}
}

// TestPreviousRefuses: the previous version refuses data that a later migration has changed, says so, and changes
// nothing.
func TestPreviousRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := generations(t)
	before, now := all[0], all[1]

	store := filepath.Join(dir, "store")
	now.run(ten(0), "published", "publish", "file:"+store+"#zones", "--key", "/id")
	if err := os.WriteFile(filepath.Join(store, "version"), []byte("feedctl file store 99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before.refuses("use the feedctl that wrote it", "verify", "file:"+store+"#zones")

	database := pgtest.Start(t).URL("previous")
	now.run("", "", "init", database)
	now.run(ten(0), "published", "publish", database+"#zones", "--key", "/id")
	change(t, database, "UPDATE feedctl.schema_version SET version = 99, min_read = 99, min_write = 99")
	before.refuses("use a newer feedctl", "verify", database+"#zones")
	change(t, database, "UPDATE feedctl.schema_version SET min_read = 1")
	before.run("", "10 entities", "verify", database+"#zones")
	before.refuses("use a newer feedctl", "publish", database+"#zones", filepath.Join("testdata", "cli.txtar"), "--format", "raw", "--key-value", "x", "--content-type", "text/plain")

	file := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte("version: 1\njobs: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now.run("", "", "jobs", "apply", "-f", file, "--db", database)
	change(t, database, "UPDATE feedctl_jobs.version SET version = 99")
	before.refuses("use a newer feedctl", "jobs", "list", "--db", database)

	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("a-setting-of-later: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before.refuses("a-setting-of-later", "list", "file:"+store, "--config", config)
}

// change executes a statement in PostgreSQL.
func change(t *testing.T, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestPreviousGuide runs the transcripts of docs/upgrade.md with the previous feedctl and this one.
func TestPreviousGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, err := filepath.Abs("../data")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"data": data, "feedctl": binary, "feedctl.previous": generations(t)[0].binary} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tr := &transcript{t: t, dir: dir, address: freeAddress(t), env: append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_CONFIG_HOME="+t.TempDir())}
	blocks := strings.Split(string(text), "```\n")
	if len(blocks) != 5 {
		t.Fatalf("docs/upgrade.md has %d transcripts, not 2", len(blocks)/2)
	}
	tr.run(blocks[1])
	tr.run(blocks[3])
}
