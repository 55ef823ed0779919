package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

var (
	entities = flag.Int("entities", 20_000, "entities that TestExactlyOnce publishes")
	kills    = flag.Int("kills", 40, "processes that TestExactlyOnce kills, at least 3: one of each kind")
	seed     = flag.Uint64("seed", 0, "seed of TestExactlyOnce; 0 takes a random one")
)

// producers publish at the same time to one feed: half of them straight to the
// store, the others to the server.
const producers = 4

// idFormat is the name of entity n of a producer. All have the same length, so
// that the size of the jsonl file tells how many lines it has.
const idFormat = "p%02d-%08d"

// TestExactlyOnce kills producers, the server and consumers with SIGKILL at
// random points and starts them again, until everything is published. Then each
// entity must be in the feed and in each sink exactly once, in order.
func TestExactlyOnce(t *testing.T) {
	r := newRig(t)
	for k := range *kills {
		r.round(k)
	}
	r.finish()
	r.checkKilled()
	r.check()
}

// A rig is the processes of one test, and what they work on.
type rig struct {
	t    *testing.T
	rng  *rand.Rand
	dir  string
	each int // entities of each producer

	server    *process
	consumers []*process
	producers []*process

	mu      sync.Mutex
	changed sync.Cond
	allowed int // entities that each producer may read by now

	lineSize int64 // of the jsonl file
	killed   map[string]int
	peak     map[string]int // resident memory, in KiB
}

func newRig(t *testing.T) *rig {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-entities %d -kills %d -seed %d", *entities, *kills, *seed)
	r := &rig{
		t:      t,
		rng:    rand.New(rand.NewPCG(*seed, 0)),
		dir:    t.TempDir(),
		each:   *entities / producers,
		killed: map[string]int{},
		peak:   map[string]int{},
	}
	r.changed.L = &r.mu
	r.startServer()
	for i := range producers {
		r.startProducer(i)
	}
	r.allow(1)
	r.waitPublished(producers)
	for _, sink := range []string{"jsonl:" + r.path("out.jsonl"), "sqlite:" + r.path("out.db")} {
		p := &process{t: t, name: "consumer", args: []string{
			"consume", r.url(), "--into", sink, "--follow", "--batch-entities", "100", "--log-level", "error",
		}}
		p.start()
		t.Cleanup(func() { p.kill(os.Kill) })
		r.consumers = append(r.consumers, p)
	}
	waitFor(t, r.state, func() bool { return r.jsonlSize() > 0 })
	r.measureLine()
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }
func (r *rig) store() string           { return "file:" + r.path("store") }

// startServer starts it on a free port, which it keeps when it is started again.
func (r *rig) startServer() {
	args := []string{"serve", "--store", r.store(), "--writable", "--ready-file", r.path("url"), "--log-level", "error"}
	r.server = &process{t: r.t, name: "server", args: append(args, "--listen", "127.0.0.1:0")}
	r.server.start()
	r.t.Cleanup(func() { r.server.kill(os.Kill) })
	waitFor(r.t, r.state, func() bool { return r.base() != "" })
	r.server.args = append(args, "--listen", strings.TrimPrefix(r.base(), "http://"))
}

// base is the URL of the server.
func (r *rig) base() string {
	text, _ := os.ReadFile(r.path("url"))
	return strings.TrimSpace(string(text))
}

func (r *rig) url() string { return r.base() + "/feeds/events" }

func (r *rig) startProducer(i int) {
	args := []string{
		"publish", "events", "--key", "/id", "--content-id", "/id", "--resume", r.resumeFile(i), "--log-level", "error",
	}
	if i%2 == 0 {
		args = append(args, "--store", r.store(), "--max-page-entities", "500")
	} else {
		args = append(args, "--to", r.base())
	}
	p := &process{t: r.t, name: "producer", args: args, input: func(w io.Writer) error { return r.feed(i, w) }}
	p.start()
	r.t.Cleanup(func() { p.kill(os.Kill) })
	r.producers = append(r.producers, p)
}

func (r *rig) resumeFile(i int) string { return r.path(fmt.Sprintf("resume-%d", i)) }

// feed writes the lines of a producer, as far as they are allowed.
func (r *rig) feed(i int, w io.Writer) error {
	for n := 0; n < r.each; {
		r.mu.Lock()
		for r.allowed <= n {
			r.changed.Wait()
		}
		allowed := r.allowed
		r.mu.Unlock()
		var lines bytes.Buffer
		for ; n < allowed; n++ {
			fmt.Fprintf(&lines, `{"id":"`+idFormat+`","text":"%032x"}`+"\n", i, n, n)
		}
		if _, err := w.Write(lines.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// allow lets each producer read n entities in all.
func (r *rig) allow(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed = n
	r.changed.Broadcast()
}

// published returns the number of entities that producers know to be in the
// feed.
func (r *rig) published() (n int) {
	for i := range producers {
		text, err := os.ReadFile(r.resumeFile(i))
		if err != nil {
			continue // nothing yet
		}
		var k int
		if _, err := fmt.Sscanf(string(text), `{"published":%d}`, &k); err != nil {
			r.t.Fatalf("resume file has %q: %v", text, err)
		}
		n += k
	}
	return n
}

func (r *rig) waitPublished(n int) {
	r.t.Helper()
	waitFor(r.t, r.state, func() bool { return r.published() >= n })
}

func (r *rig) jsonlSize() int64 {
	info, err := os.Stat(r.path("out.jsonl"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// measureLine waits for the first whole line.
func (r *rig) measureLine() {
	waitFor(r.t, r.state, func() bool {
		text, _ := os.ReadFile(r.path("out.jsonl"))
		r.lineSize = int64(bytes.IndexByte(text, '\n') + 1)
		return r.lineSize > 0
	})
}

// consumed returns the number of lines in the jsonl file, committed or not.
func (r *rig) consumed() int { return int(r.jsonlSize() / r.lineSize) }

// round lets some more be published, waits until a random part of it has come
// through to the producers' state or to the sink, and kills somebody.
func (r *rig) round(k int) {
	before := min(r.published(), r.consumed())
	r.allow(r.each * (k + 1) / *kills)
	more := r.each*producers*(k+1) / *kills - before
	target := before + r.rng.IntN(max(more, 1))
	arrived := r.published
	if r.rng.IntN(2) == 0 {
		arrived = r.consumed
	}
	waitFor(r.t, r.state, func() bool { return arrived() >= target })

	for !r.kill(r.victim(k)) {
	}
}

// victim returns a process that has not ended: at first one of each kind, then a
// random one.
func (r *rig) victim(k int) *process {
	kinds := [][]*process{{r.server}, r.consumers, r.producers}
	victims := append(slices.Concat(kinds...), r.server)
	if k < len(kinds) {
		victims = slices.Clone(kinds[k])
	}
	victims = slices.DeleteFunc(victims, (*process).ended)
	if len(victims) == 0 {
		r.t.Fatalf("all have ended: %s", r.state())
	}
	return victims[r.rng.IntN(len(victims))]
}

// kill kills a process and starts it again, and reports whether it was killed:
// it may have been faster and ended by itself.
func (r *rig) kill(victim *process) bool {
	r.measure(victim)
	victim.kill(os.Kill)
	if victim.err == nil {
		return false // a producer that was done
	}
	if status, ok := victim.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("%s has ended by itself: %v\n%s", victim.name, victim.err, victim.stderr)
	}
	r.killed[victim.name]++
	victim.start()
	return true
}

// checkKilled checks that all kinds of processes were killed, and as often as
// was asked for.
func (r *rig) checkKilled() {
	sum := 0
	for _, name := range []string{"server", "consumer", "producer"} {
		if r.killed[name] == 0 {
			r.t.Errorf("no %s was killed", name)
		}
		sum += r.killed[name]
	}
	if sum != *kills {
		r.t.Errorf("%d processes were killed, want %d", sum, *kills)
	}
}

// maxMemory is what a process may have resident, in KiB.
const maxMemory = 64 << 10

// measure looks at the most memory that a process had, where the system tells.
func (r *rig) measure(p *process) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, text, found := strings.Cut(string(status), "VmHWM:")
	if err != nil || !found {
		return // it has ended, or this is no Linux
	}
	var kib int
	if _, err := fmt.Sscan(text, &kib); err != nil {
		r.t.Fatalf("read memory of %s: %v", p.name, err)
	}
	r.peak[p.name] = max(r.peak[p.name], kib)
	if kib > maxMemory {
		r.t.Errorf("%s had %d KiB of memory, more than %d", p.name, kib, maxMemory)
	}
}

// finish lets everything be published and consumed.
func (r *rig) finish() {
	r.allow(r.each)
	for _, p := range r.producers {
		waitFor(r.t, r.state, p.ended)
		if p.err != nil {
			r.t.Fatalf("producer: %v\n%s", p.err, p.stderr)
		}
	}
	waitFor(r.t, r.state, func() bool { return r.consumed() >= r.each*producers })
	for _, p := range append([]*process{r.server}, r.consumers...) {
		r.measure(p)
	}
	for _, p := range r.consumers {
		p.kill(syscall.SIGINT)
		if code := p.cmd.ProcessState.ExitCode(); code != 130 {
			r.t.Fatalf("consumer: exit status %d after SIGINT\n%s", code, p.stderr)
		}
		feedctl(r.t, slices.DeleteFunc(slices.Clone(p.args), func(arg string) bool { return arg == "--follow" })...)
	}
	r.t.Logf("killed: %v; most memory in KiB: %v", r.killed, r.peak)
}

// check compares what was published with the feed and the sinks.
func (r *rig) check() {
	inFeed := readFeed(r.t, r.url())
	if err := checkIDs("feed", inFeed, producers, r.each); err != nil {
		r.t.Error(err)
	}
	inFile := readLines(r.t, r.path("out.jsonl"))
	if err := checkIDs("jsonl", inFile, producers, r.each); err != nil {
		r.t.Error(err)
	}
	if !slices.Equal(inFeed, inFile) {
		r.t.Error("jsonl has another order than the feed")
	}
	inTable := r.readTable()
	slices.Sort(inFeed)
	if !slices.Equal(inFeed, inTable) {
		r.t.Errorf("sqlite has %d rows that are not the %d entities", len(inTable), len(inFeed))
	}
	feedctl(r.t, "verify", r.url())
	feedctl(r.t, "verify", "events", "--store", r.store())
}

// readTable returns the Content-IDs in the table, sorted.
func (r *rig) readTable() (ids []string) {
	conn, err := sqlite.OpenConn(r.path("out.db"), sqlite.OpenReadOnly)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, "SELECT content_id FROM entities ORDER BY content_id", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { ids = append(ids, row.ColumnText(0)); return nil },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ids
}

// state tells where everything is, for when it goes on no more.
func (r *rig) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d published", r.published())
	if r.lineSize > 0 {
		fmt.Fprintf(&b, ", %d consumed", r.consumed())
	}
	for _, p := range slices.Concat([]*process{r.server}, r.producers, r.consumers) {
		fmt.Fprintf(&b, "\n%s, ended %v:\n%s", p.name, p.ended(), p.stderr)
	}
	return b.String()
}
