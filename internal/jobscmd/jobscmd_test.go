package jobscmd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/jobscmd"
	"github.com/feedctl/feedctl/jobs"
)

// A fake is a kind whose jobs do nothing. A job needs a source, and uses local files if the source begins
// with "/".
type fake struct{ ran chan string }

func (fake) Check(d *jobs.Document) []jobs.Problem {
	if d.Source == "" {
		return []jobs.Problem{{Field: "source", Message: "there is no source"}}
	}
	return nil
}

func (fake) Identify(d *jobs.Document) jobs.Identity {
	i := jobs.Identity{Work: d.Source + " " + d.Target, Target: d.Target, Local: strings.HasPrefix(d.Source, "/")}
	if strings.HasPrefix(d.Source, "https:") {
		i.SourceOrigin = d.Source
	}
	return i
}

func (f fake) Run(ctx context.Context, s *jobs.Session) error {
	s.CaughtUp()
	select {
	case f.ran <- s.Document.ID():
	case <-ctx.Done():
	}
	return nil
}

// A machine executes command lines in a directory of its own.
type machine struct {
	*testing.T
	kinds jobs.Kinds
	stdin string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return &machine{T: t, kinds: jobs.Kinds{"fake": fake{make(chan string)}, "other": fake{}}}
}

// run executes a command line, which must end with the given status. It returns what the command has
// printed.
func (m *machine) run(status int, args ...string) (stdout, stderr string) {
	m.Helper()
	return m.runContext(m.Context(), status, args...)
}

func (m *machine) runContext(ctx context.Context, status int, args ...string) (stdout, stderr string) {
	m.Helper()
	return m.runSeeing(ctx, status, false, func(string) {}, args...)
}

// runSeeing executes a command line, on a terminal or not. After each write, it calls saw with all that
// the command has printed so far to the same stream.
func (m *machine) runSeeing(ctx context.Context, status int, terminal bool, saw func(printed string), args ...string) (stdout, stderr string) {
	m.Helper()
	out, err := seen{saw: saw}, seen{saw: saw}
	a := app.New(app.Streams{In: strings.NewReader(m.stdin), Out: &out, Err: &err, Terminal: terminal})
	root := &cobra.Command{Use: "feedctl"}
	root.AddCommand(jobscmd.New(a, m.kinds))
	a.Prepare(root)
	if got := a.Run(ctx, root, args); got != status {
		m.Errorf("%s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, status, out.text.String(), err.text.String())
	}
	return out.text.String(), err.text.String()
}

// A seen is a buffer that calls the function saw with its contents after each write.
type seen struct {
	text bytes.Buffer
	saw  func(string)
}

func (s *seen) Write(p []byte) (int, error) {
	n, err := s.text.Write(p)
	s.saw(s.text.String())
	return n, err
}

// prints executes a command line, which must succeed and print the given string.
func (m *machine) prints(want string, args ...string) {
	m.Helper()
	got, _ := m.run(0, args...)
	if got = seconds.ReplaceAllString(got, "0s"); got != want {
		m.Errorf("%s prints\n%s\nwant\n%s", strings.Join(args, " "), got, want)
	}
}

// seconds matches an age of less than a minute.
var seconds = regexp.MustCompile(`\b[0-9]+s\b`)

// fails executes a command line, which must end with the given status and print all given strings on
// standard error.
func (m *machine) fails(status int, args []string, want ...string) {
	m.Helper()
	_, stderr := m.run(status, args...)
	for _, text := range want {
		if !strings.Contains(stderr, text) {
			m.Errorf("%s prints\n%s\nwant %q in it", strings.Join(args, " "), stderr, text)
		}
	}
}

func (m *machine) write(name, text string) {
	m.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

const twoJobs = `version: 1
namespace: shop
jobs:
  - name: orders
    kind: fake
    source: https://db.test:443
    target: t
    follow: true
    options: {limit: 10}
    labels: {team: data}
  - {name: prices, kind: other, source: y}
`

func TestApply(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	const created = `+ shop/orders: fake https://db.test:443 t
+ shop/prices: other y
`
	m.prints(created+"2 jobs would be created, 0 changed, 0 deleted; 0 unchanged\n", "jobs", "apply", "-f", "jobs.yaml", "--dry-run")
	m.fails(3, []string{"jobs", "list"}, "no jobs database at sqlite:feedctl-jobs.db")
	m.prints(created+"2 jobs created, 0 changed, 0 deleted; 0 unchanged\n", "jobs", "apply", "-f", "jobs.yaml")
	m.prints("0 jobs created, 0 changed, 0 deleted; 2 unchanged\n", "jobs", "apply", "-f", "jobs.yaml")

	m.stdin = strings.Replace(strings.Replace(twoJobs, "limit: 10", "limit: 20, header: [a, b]", 1), "    follow: true\n", "", 1)
	m.prints(`~ shop/orders
    - follow: true
    + options.header: a, b
    - options.limit: 10
    + options.limit: 20
0 jobs created, 1 changed, 0 deleted; 1 unchanged
`, "jobs", "apply", "-f", "-")
	m.prints(`{"dryRun":true,"created":0,"changed":1,"deleted":0,"unchanged":1,"changes":[{"job":"shop/orders","action":"changed","fields":[`+
		`{"field":"follow","after":"true"},{"field":"options.header","before":"a, b"},{"field":"options.limit","before":"20","after":"10"}]}]}`+"\n",
		"jobs", "apply", "-f", "jobs.yaml", "--dry-run", "--json")

	m.write("less.yaml", strings.Split(twoJobs, "  - {name: prices")[0])
	less := []string{"jobs", "apply", "-f", "less.yaml", "--prune"}
	m.fails(2, less, "delete 1 job: there is no terminal to ask on: use --yes")
	m.prints("~ shop/orders\n    + follow: true\n    - options.header: a, b\n    - options.limit: 20\n    + options.limit: 10\n- shop/prices\n0 jobs created, 1 changed, 1 deleted; 0 unchanged\n", append(less, "--yes")...)
	m.fails(3, []string{"jobs", "history", "shop/prices"}, "no such job")
	m.prints("0 jobs created, 0 changed, 0 deleted; 1 unchanged\n", less...) // nothing is deleted, so nothing is asked
}

// TestApplyNothing: if files have errors, nothing in them is stored.
func TestApplyNothing(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.write("bad/a.yaml", `version: 1
jobs:
  - name: good
    kind: fake
    source: x
    surce: x
  - {name: bad, kind: fak, source: y}
`)
	m.write("bad/b.yml", "version: 1\njobs:\n  - {name: c, kind: fake, source: z, after: [c]}\n")
	_, stderr := m.run(2, "jobs", "apply", "-f", "bad")
	const want = `feedctl: bad/a.yaml:6: unknown field "surce"; did you mean "source"?
  bad/a.yaml:7: job "default/bad": kind: unknown kind "fak": want one of fake, other
  bad/b.yml:3: job "default/c": after: the job waits for itself: default/c → default/c
`
	if !strings.HasPrefix(stderr, want) {
		t.Errorf("bad files:\n%s\nwant\n%s", stderr, want)
	}
	m.write("conflict.yaml", `version: 1
jobs:
  - name: good
    kind: fake
    source: x
  - name: twin
    kind: fake
    source: y
    target: t
  - name: pinned
    kind: fake
    source: /file
    placement: {node: nowhere}
`)
	m.fails(2, []string{"jobs", "apply", "-f", "conflict.yaml"}, `conflict.yaml:9: job "default/twin": target: job "shop/orders" writes to the same target`,
		`conflict.yaml:13: job "default/pinned": placement.node: there is no node "nowhere": start it first`)
	m.fails(3, []string{"jobs", "apply", "-f", "missing.yaml"}, "read jobs: stat missing.yaml: no such file")
	if out, _ := m.run(0, "jobs", "list", "--json"); strings.Contains(out, "default") {
		t.Errorf("a job of invalid files is stored: %s", out)
	}
	m.fails(2, []string{"jobs", "validate", "-f", "bad"}, "bad/a.yaml:7:", "bad/b.yml:3:")
	m.prints("2 jobs: no problems\n", "jobs", "validate", "-f", "jobs.yaml")
	if out, _ := m.run(2, "jobs", "validate", "-f", "bad/b.yml", "--json"); out != `{"jobs":0,"problems":[{"file":"bad/b.yml","line":3,"job":"default/c","field":"after","message":"the job waits for itself: default/c → default/c"}]}`+"\n" {
		t.Error(out)
	}
}

func TestSelect(t *testing.T) {
	m := newMachine(t)
	m.fails(3, []string{"jobs", "pause", "a"}, "open database of jobs: no jobs database at sqlite:feedctl-jobs.db", "Try: ")
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.fails(2, []string{"jobs", "pause"}, "name jobs, or select them")
	m.fails(2, []string{"jobs", "pause", "orders", "--all"}, "but not both")
	m.fails(2, []string{"jobs", "pause", "--state", "pasued"}, `did you mean "paused"?`)
	m.fails(2, []string{"jobs", "pause", "-l", "team"}, "want NAME=VALUE")
	m.fails(3, []string{"jobs", "pause", "orders"}, `no such job; did you mean "shop/orders"?`)
	m.fails(3, []string{"jobs", "pause", "shop/orers"}, `did you mean "shop/orders"?`)
	m.prints("paused shop/orders\n", "jobs", "pause", "shop/orders")
	m.prints("shop/orders is paused or has ended already\n", "jobs", "pause", "orders", "-n", "shop")
	m.prints("paused 1 of 2 jobs\n", "jobs", "pause", "--all")
	m.prints("resumed shop/orders\n", "jobs", "resume", "--origin", "db.test")
	m.prints("paused 0 of 0 jobs\n", "jobs", "pause", "--all", "-n", "default")
	m.prints("resumed shop/prices\n", "jobs", "resume", "--kind", "other", "--state", "paused,failed")
	m.prints(`{"jobs":["shop/orders"],"changed":1}`+"\n", "jobs", "restart", "--selector", "team=data", "--json")
	m.fails(2, []string{"jobs", "cancel", "shop/orders"}, "job follows its source", `Try: "feedctl jobs pause"`)
	m.prints(`{"jobs":["shop/prices"],"changed":1}`+"\n", "jobs", "cancel", "--all", "--json")
	m.prints("shop/prices is not running, or has already ended\n", "jobs", "cancel", "shop/prices")
	m.fails(2, []string{"jobs", "delete", "--all"}, "delete 2 jobs: there is no terminal")
	m.prints("deleted shop/orders; what it has written to t stays\n", "jobs", "delete", "shop/orders")
	m.prints("deleted shop/prices\n", "jobs", "delete", "--all", "--yes")
	m.prints("0 jobs\n", "jobs", "list")
}

func TestExport(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.run(0, "jobs", "pause", "--all")
	for _, format := range []string{"", "--json"} {
		m.stdin, _ = m.run(0, strings.Fields("jobs export "+format)...)
		m.prints("0 jobs created, 0 changed, 0 deleted; 2 unchanged\n", "jobs", "apply", "-f", "-", "--prune")
		m.stdin, _ = m.run(0, strings.Fields("jobs export --selector team=data "+format)...)
		m.prints("1 job: no problems\n", "jobs", "validate", "-f", "-")
	}
}

func TestSettings(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	out, _ := m.run(0, "jobs", "settings", "max-jobs=200", "backoff-max=10m")
	for _, line := range []string{`NAME +VALUE +DEFAULT +BOUNDS +MEANING`, `max-jobs +200 +500 +1 to 10000 +jobs that`, `backoff-max +10m +1h `} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	m.fails(2, []string{"jobs", "settings", "max-jobs=", "max-chrun=1"}, `max-chrun: unknown setting; did you mean "max-churn"?`)
	m.fails(2, []string{"jobs", "settings", "max-jobs"}, "want NAME=VALUE")
	if out, _ := m.run(0, "jobs", "settings", "--json"); !strings.HasPrefix(out, `[{"name":"max-jobs","value":"200","default":"500",`) {
		t.Errorf("after an error: %s", out)
	}
	if out, _ := m.run(0, "jobs", "settings", "max-jobs=", "--json"); !strings.HasPrefix(out, `[{"name":"max-jobs","value":"500",`) {
		t.Errorf("after a reset: %s", out)
	}
	if out, _ := m.run(0, "__complete", "jobs", "settings", "max-"); !strings.Contains(out, "max-jobs=\t") {
		t.Errorf("completion: %s", out)
	}
}

// TestDatabase: URLs that do not name a database of jobs are refused with helpful errors.
func TestDatabase(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	for _, url := range []string{"mysql://x", "postgres://db.test:port/jobs", "sqlite:", "jobs.db"} {
		for _, command := range []string{"list", "nodes", "origins", "tenants", "settings", "export", "worker"} {
			m.fails(2, []string{"jobs", command, "--db", url}, "open database of jobs: invalid URL: ")
		}
		m.fails(2, []string{"jobs", "apply", "-f", "jobs.yaml", "--db", url}, "open database of jobs: invalid URL: ")
	}
	for file, want := range map[string]struct {
		status int
		text   string
	}{
		"none/jobs.db": {3, "no such file or directory"},
		".":            {1, "is a directory"},
		"jobs.yaml":    {1, "jobs.yaml: file is not a database"},
	} {
		m.fails(want.status, []string{"jobs", "apply", "-f", "jobs.yaml", "--db", "sqlite:" + file}, want.text)
	}
	m.fails(2, []string{"jobs", "list", "--db", "sqlite::memory:"}, "only the process that runs the jobs", "Try: --db sqlite:FILE")
	m.fails(2, []string{"jobs", "apply", "-f", "jobs.yaml", "--db", "sqlite::memory:"}, "Try: --db sqlite:FILE")
	m.run(0, "jobs", "apply", "-f", "jobs.yaml", "--db", "sqlite::memory:", "--dry-run")
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.fails(2, []string{"jobs", "tenants", "--set-shares", "BAD NS=5"}, `invalid name "BAD NS"`)
	m.run(0, "jobs", "cancel", "shop/prices")
	m.write("other.yaml", "version: 1\nnamespace: shop\njobs: [{name: other, kind: other, source: y}]\n")
	m.run(0, "jobs", "apply", "-f", "other.yaml")
	m.fails(1, []string{"jobs", "restart", "shop/prices"}, "another job does the same", "delete job shop/other", `Try: "feedctl jobs delete NAME"`)
}

func TestList(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.run(0, "jobs", "pause", "shop/prices")
	m.prints(`2 jobs: 1 pending, 1 paused
NAME         KIND   STATE    LAG  PENDING  ERR  NEXT  NODE  SINCE
shop/orders  fake   pending  -    -        0    0s    -     0s
shop/prices  other  paused   -    -        0    -     -     0s
`, "jobs", "list")
	m.prints(`2 jobs: 1 pending, 1 paused
NAME         KIND  STATE    LAG  PENDING  ERR  NEXT  NODE  SINCE
shop/orders  fake  pending  -    -        0    0s    -     0s
more: --after shop/orders
`, "jobs", "list", "--limit", "1")
	if out, _ := m.run(0, "__complete", "jobs", "list", "--after", "shop/"); !strings.HasPrefix(out, "shop/orders\nshop/prices\n") {
		t.Errorf("completion of --after: %s", out)
	}
	if out, _ := m.run(0, "jobs", "list", "--after", "shop/orders"); strings.Contains(out, "orders") || !strings.Contains(out, "prices") {
		t.Errorf("after orders:\n%s", out)
	}
	if out, _ := m.run(0, "jobs", "list", "--json", "--state", "paused"); !strings.HasPrefix(out, `{"totals":{"paused":1},"jobs":[{"document":{"namespace":"shop","name":"prices","kind":"other","source":"y"`) {
		t.Error(out)
	}
}

func TestDescribe(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.run(0, "jobs", "pause", "shop/prices")
	out, _ := m.run(0, "jobs", "describe", "shop/orders")
	for _, text := range []string{"\nwhy            no node is alive\n", "\noptions.limit  10\n", "\ngeneration     1, of the last run 0\n", "added"} {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
	if out, _ := m.run(0, "jobs", "describe", "prices", "-n", "shop", "--json"); !strings.Contains(out, `"why":"paused since `) {
		t.Error(out)
	}
	m.fails(3, []string{"jobs", "describe", "orders"}, `did you mean "shop/orders"?`)
	m.prints("shop/orders has no position yet: runs report it every few seconds (setting stats-interval), and when they end\n", "jobs", "position", "shop/orders")
	m.prints("none\n", "jobs", "nodes")
	m.prints("[]\n", "jobs", "nodes", "--json")
	m.prints("ORIGIN               STATE  JOBS  RUNNING  CRASHING  FAILURES  NEXT TRY  LAST ERROR\nhttps://db.test:443  up     1     0        0         0         -         -\n", "jobs", "origins")
	const tenants = "NAMESPACE  SHARES  MAX RUNNING  USED  JOBS  RUNNING  WAITING\n"
	m.prints(tenants+"shop       200     -            0s    2     0        1\n", "jobs", "tenants", "--set-shares", "shop=200")
	m.prints(tenants+"shop       200     3            0s    2     0        1\n", "jobs", "tenants", "--set-max-running", "shop=3")
	m.prints(tenants+"shop       100     -            0s    2     0        1\n", "jobs", "tenants", "--set-max-running", "shop=default")
	m.fails(2, []string{"jobs", "tenants", "--set-shares", "shop=0"}, "with 1 to 1000 shares")
	m.fails(2, []string{"jobs", "tenants", "--set-shares", "shop=7", "--set-max-running", "=3"}, "want NAMESPACE=N")
	m.fails(2, []string{"jobs", "tenants", "--set-max-running", "shop=-1"}, "with 0 for no limit")
	m.prints(tenants+"shop       100     -            0s    2     0        1\n", "jobs", "tenants")
}
