package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/loopback"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
)

// jobSources is the number of databases, and of feeds of the outbox.
const jobSources = 2

func docsFeed(n int) string { return fmt.Sprint("docs-", n) }
func rowsFeed(n int) string { return fmt.Sprint("rows-", n) }

// A jobsRig holds the sources, the jobs and the workers of a test.
type jobsRig struct {
	*rig
	several bool // several workers share the database of the jobs
	pg      *pgtest.TestServer
	host    string // its address
	couch   *couchtest.Server
	kinto   *kintotest.Server
	copies  map[string]string // databases of CouchDB, and collections, by name
	db      string            // of the jobs

	writers []*couchWriter
	records *kintoWriter
	written [jobSources]int // rows of each feed of the outbox
	jobs    []*chaosJob
	workers []*process
	frozen  map[*process]bool
	done    map[string]int // faults and commands

	steps, compared, differences int // compared counts rows
}

// A chaosJob is a job as it was last applied.
type chaosJob struct {
	name, kind, source, target string
	node                       string // for files
	sink                       string // the kind of the target of a consumer
	credentials                map[string]string
	follow, deleted            bool
	options                    map[string]any
}

func newJobsRig(t *testing.T, several bool) *jobsRig {
	host := loopback.Host() // a socket in the file system would bind jobs to one node
	r := &jobsRig{
		rig: &rig{
			t: t, rng: rand.New(rand.NewPCG(*seed, 0)), dir: t.TempDir(), killed: map[string]int{}, peak: map[string]int{},
		},
		several: several, pg: pgtest.StartOwn(t, "listen_addresses='"+host+"'"), host: host, couch: couchtest.Start(t),
		copies: map[string]string{}, frozen: map[*process]bool{}, done: map[string]int{},
	}
	r.changed.L = &r.mu
	r.store, r.db = r.pgURL("feeds").String(), "sqlite:"+r.path("jobs.db")
	if several {
		r.db = r.pgURL("jobs").String()
	}
	feedctl(t, "init", r.store)
	feedctl(t, "outbox", "run", "--db", r.pgURL("source").String(), "--store", r.store, "--feed", rowsFeed(0), "--once")
	r.startServer(0)
	for n := range jobSources {
		r.writers = append(r.writers, &couchWriter{rng: rand.New(rand.NewPCG(*seed, uint64(n+1))), db: r.couchDB(docsFeed(n))})
	}
	r.startKinto()
	r.write(1)
	r.createJobs()
	r.setPolicies()
	r.hasten()
	for n := range 3 {
		if n == 0 || several {
			r.startWorker(n)
		}
	}
	waitForCommand(t, r.jobsState, func() bool { return r.alive() == len(r.workers) })
	r.apply()
	return r
}

// pgURL returns the URL of a database of the server, for connections by TCP.
func (r *jobsRig) pgURL(name string) *url.URL {
	u, err := url.Parse(r.pg.URL(name))
	if err != nil {
		r.t.Fatal(err)
	}
	u.Host, u.RawQuery = r.host, "sslmode=disable"
	return u
}

func (r *jobsRig) couchDB(name string) string {
	if r.copies[name] == "" {
		r.copies[name] = r.couch.NewDB(r.t)
	}
	return r.copies[name]
}

// into returns the name of a sink.
func (r *jobsRig) into(sink, name string) string {
	switch sink {
	case "sqlite":
		return "sqlite:" + r.path(name+".db") + "?table=copy"
	case "couchdb":
		return "couchdb:" + r.couchDB(name)
	case "kinto":
		return "kinto:" + r.collection(name)
	case "postgres":
		u := r.pgURL("copies")
		u.RawQuery += "&table=" + strings.ReplaceAll(name, "-", "_")
		return u.String()
	}
	return sink + ":" + r.path(name)
}

// createJobs makes jobs of all kinds and sinks: some consumers read from the server, others from
// the store.
func (r *jobsRig) createJobs() {
	consume := func(source, feed string, sinks ...string) {
		for _, sink := range sinks {
			name := feed + "-" + sink
			j := &chaosJob{name: name, kind: "consume", source: source + feed, target: r.into(sink, name), sink: sink, follow: true, options: map[string]any{"batch-entities": 2}}
			switch sink {
			case "kinto":
				j.credentials = map[string]string{"target": "file:" + r.credential()}
			case "dir", "jsonl", "sqlite":
				j.node = r.workerName(len(r.jobs) % 3)
			}
			r.jobs = append(r.jobs, j)
		}
	}
	for n := range jobSources {
		docs, rows := docsFeed(n), rowsFeed(n)
		r.jobs = append(r.jobs,
			&chaosJob{name: docs, kind: "bridge couchdb", source: r.couchDB(docs), target: r.store + "#" + docs, follow: true, options: map[string]any{
				"revs": true, "conflicts": true, "design-docs": true, "attachments": "multipart"}},
			&chaosJob{name: rows, kind: "outbox run", source: r.pgURL("source").String(), target: r.store, follow: true, options: map[string]any{"feed": rows}},
			&chaosJob{name: "verify-" + docs, kind: "verify", source: r.base(0) + "/feeds/" + docs},
			&chaosJob{name: "snapshot-" + docs, kind: "snapshot from-feed", source: r.store + "#" + docs},
			&chaosJob{name: "retain-" + docs, kind: "retain", target: r.store + "#" + docs},
			&chaosJob{name: "prune-" + rows, kind: "prune", target: r.store + "#" + rows, options: map[string]any{"keep-age": "1h", "keep-pages": 1}},
		)
	}
	r.jobs = append(r.jobs, &chaosJob{name: recordsFeed, kind: "bridge kinto", source: r.records.collection, target: r.store + "#" + recordsFeed, follow: true,
		credentials: map[string]string{"source": "file:" + r.credential()}, options: map[string]any{"interval": "50ms"}})
	consume(r.base(0)+"/feeds/", recordsFeed, "kinto", "jsonl")
	consume(r.base(0)+"/feeds/", docsFeed(0), "couchdb", "sqlite", "jsonl")
	consume(r.store+"#", docsFeed(1), "couchdb", "dir", "postgres")
	consume(r.base(0)+"/feeds/", rowsFeed(0), "postgres", "jsonl")
	consume(r.store+"#", rowsFeed(1), "sqlite", "dir")
}

// setPolicies sets the retention policies that jobs of kind retain carry out. The feeds do not exist yet.
func (r *jobsRig) setPolicies() {
	store, err := storage.Registry{"postgres": postgres.Create}.Open(r.t.Context(), r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	for n := range jobSources {
		if _, err := retention.Change(r.t.Context(), store, docsFeed(n), func(p *retention.Policy) error {
			*p = retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Minute, KeepSnapshots: 2}
			return nil
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// slots returns how many jobs a worker runs at the same time: all workers together have fewer slots than there are jobs.
func (r *jobsRig) slots() string {
	if r.several {
		return "4"
	}
	return "6"
}

func (r *jobsRig) workerName(n int) string {
	if !r.several {
		n = 0
	}
	return fmt.Sprint("worker-", n)
}

func (r *jobsRig) startWorker(n int) {
	p := &process{t: r.t, name: r.workerName(n), args: []string{
		"jobs", "worker", "--db", r.db, "--name", r.workerName(n), "--max-jobs", r.slots(), "--log-level", "error",
	}}
	p.start()
	r.t.Cleanup(func() { p.kill(os.Kill) })
	r.workers = append(r.workers, p)
}

// jobsLease is the lease of a worker.
const jobsLease = 9 * time.Second

// hasten shortens the times for which jobs wait.
func (r *jobsRig) hasten() {
	s := r.scheduler()
	defer s.Close()
	_, err := s.Set(r.t.Context(), map[string]string{
		"lease": jobsLease.String(), "interval": "1s", "min-run-time": "1s", "startup-jitter": "0s", "backoff-min": "1s", "backoff-max": "3s",
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *jobsRig) scheduler() *jobs.Scheduler {
	s, err := jobs.Open(r.t.Context(), r.db, kinds.All(), jobs.Defaults())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// command runs a command of "feedctl jobs", and repeats it if the database was unavailable.
func (r *jobsRig) command(args ...string) (out []byte) {
	r.t.Helper()
	args = append(append([]string{"jobs"}, args...), "--db", r.db)
	var last error
	waitForCommand(r.t, func() string { return fmt.Sprintf("feedctl %q: %v", args, last) }, func() bool {
		out, last = exec.Command(binary, args...).Output()
		if failed, ok := errors.AsType[*exec.ExitError](last); ok && failed.ExitCode() != 1 {
			r.t.Fatalf("feedctl %q: %v\n%s", args, last, failed.Stderr)
		}
		return last == nil
	})
	return out
}

// apply makes the stored jobs equal to those jobs of r that are not deleted.
func (r *jobsRig) apply() {
	r.t.Helper()
	type placement struct {
		Node string `json:"node"`
	}
	type document struct {
		Name        string            `json:"name"`
		Kind        string            `json:"kind"`
		Source      string            `json:"source,omitempty"`
		Target      string            `json:"target,omitempty"`
		Credentials map[string]string `json:"credentials,omitempty"`
		Follow      bool              `json:"follow"`
		Options     map[string]any    `json:"options,omitempty"`
		Placement   *placement        `json:"placement,omitempty"`
	}
	var documents []document
	for _, j := range r.jobs {
		if j.deleted {
			continue
		}
		d := document{Name: j.name, Kind: j.kind, Source: j.source, Target: j.target, Credentials: j.credentials, Follow: j.follow, Options: j.options}
		if j.node != "" {
			d.Placement = &placement{j.node}
		}
		documents = append(documents, d)
	}
	text, err := json.Marshal(map[string]any{"version": 1, "jobs": documents})
	if err == nil {
		err = os.WriteFile(r.path("jobs.yaml"), text, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.command("apply", "-f", r.path("jobs.yaml"), "--prune", "--yes")
}

// list returns the jobs, by name.
func (r *jobsRig) list() map[string]jobs.Listed {
	r.t.Helper()
	var list struct {
		Jobs []jobs.Listed
	}
	if err := json.Unmarshal(r.command("list", "--json"), &list); err != nil {
		r.t.Fatal(err)
	}
	byName := map[string]jobs.Listed{}
	for _, j := range list.Jobs {
		byName[j.Document.Name] = j
	}
	return byName
}

// alive returns how many nodes are alive.
func (r *jobsRig) alive() (n int) {
	var nodes []jobs.NodeStatus
	if err := json.Unmarshal(r.command("nodes", "--json"), &nodes); err != nil {
		r.t.Fatal(err)
	}
	for _, node := range nodes {
		if node.Alive {
			n++
		}
	}
	return n
}

// write makes changes in all sources. Writers try again while a source is unavailable.
func (r *jobsRig) write(changes int) {
	r.t.Helper()
	for _, w := range r.writers {
		for range changes {
			if err := w.write(r.t.Context()); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	for range changes {
		if err := r.records.write(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.writeRows(rowsEach*changes, "")
}

// rowsEach is the number of rows for each change of a document. With that many, copies can be interrupted at any entity.
const rowsEach = 20

// writeRows publishes rows through the outbox, with 1,000 keys or the given one.
func (r *jobsRig) writeRows(rows int, key string) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.pgURL("source").String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close(r.t.Context())
	const publish = `SELECT count(feedctl.publish($1, CASE $4 WHEN '' THEN 'key ' || n % 1000 ELSE $4 END,
		CASE WHEN $4 = '' AND n % 5 = 0 THEN 'DELETE' ELSE 'PUT' END, json_build_object('n', n)::text, content_id => '<' || n || '@rows>'))
		FROM generate_series($2::int, $3::int) AS n`
	for n := range r.written {
		if _, err := conn.Exec(r.t.Context(), publish, rowsFeed(n), r.written[n]+1, r.written[n]+rows, key); err != nil {
			r.t.Fatal(err)
		}
		r.written[n] += rows
	}
}

// numbers returns the numbers of the rows in a feed.
func (r *jobsRig) numbers(feed string) (list []int) {
	for _, id := range readFeed(r.t, r.base(0)+"/feeds/"+feed) {
		var n int
		if _, err := fmt.Sscanf(id, "<%d@rows>", &n); err != nil {
			r.t.Fatalf("Content-ID %q in feed %s: %v", id, feed, err)
		}
		list = append(list, n)
	}
	return list
}

func (r *jobsRig) jobsState() string {
	text := fmt.Sprint(r.done)
	for _, command := range [][]string{{"nodes"}, {"list"}} {
		out, err := exec.Command(binary, append([]string{"jobs", "--db", r.db}, command...)...).CombinedOutput()
		text += fmt.Sprintf("\n%s%v", out, err)
	}
	for _, p := range r.workers {
		text += fmt.Sprintf("\n%s, ended %v, frozen %v:\n%s", p.name, p.ended(), r.frozen[p], p.stderr)
	}
	return text
}

// some returns the names of a random selection of jobs.
func (r *jobsRig) some() (names []string) {
	for _, j := range r.jobs {
		if !j.deleted && r.rng.IntN(4) == 0 {
			names = append(names, j.name)
		}
	}
	return names
}

func (r *jobsRig) doneText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.done)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.done[name], name))
	}
	return strings.Join(parts, ", ")
}
