package e2e

import (
	"bytes"
	"encoding/json"
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

	"github.com/feedctl/feedctl/internal/loopback"
)

// producers is the number of producers that publish concurrently to one feed: half of them directly to the store, the
// others to the servers.
const producers = 4

// idFormat is the format of the name of entity n of a producer. All names have the same length, so that the
// size of the jsonl file determines its number of lines.
const idFormat = "p%02d-%08d"

// chooseSeed chooses a seed for all tests if the command line has none.
var chooseSeed = sync.OnceFunc(func() {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
})

// newSeed returns the seed of the test and logs it.
func newSeed(t *testing.T) uint64 {
	chooseSeed()
	t.Logf("-seed %d", *seed)
	return *seed
}

// A rig holds the processes of one test, and their files.
type rig struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	store string // its URL
	each  int    // entities of each producer

	servers   []*process
	consumers []*process
	producers []*process

	mu      sync.Mutex
	changed sync.Cond
	allowed int // entities that each producer may read so far

	lineSize int64 // of the jsonl file
	killed   map[string]int
	peak     map[string]int // resident memory, in KiB
}

func newRig(t *testing.T, store string, servers, entities int) *rig {
	r := &rig{
		t:      t,
		rng:    rand.New(rand.NewPCG(newSeed(t), 0)),
		dir:    t.TempDir(),
		store:  store,
		each:   entities / producers,
		killed: map[string]int{},
		peak:   map[string]int{},
	}
	r.changed.L = &r.mu
	feedctl(t, "init", r.store)
	for n := range servers {
		r.startServer(n)
	}
	for i := range producers {
		r.startProducer(i)
	}
	r.allow(1)
	r.waitPublished(producers)
	r.startConsumer(r.url(0), "jsonl:"+r.path("out.jsonl"))
	r.startConsumer(r.url(servers-1), "sqlite:"+r.path("out.db"))
	r.startConsumer(r.store+"#events", "jsonl:"+r.path("direct.jsonl"))
	waitFor(t, r.state, func() bool { return r.jsonlSize() > 0 })
	r.measureLine()
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// startServer starts a server on a free port, which it keeps when it is restarted.
func (r *rig) startServer(n int) {
	args := []string{"serve", "--store", r.store, "--writable", "--ready-file", r.urlFile(n), "--log-level", "error"}
	p := &process{t: r.t, name: "server", args: append(args, "--listen", loopback.Host()+":0")}
	p.start()
	r.t.Cleanup(func() { p.kill(os.Kill) })
	r.servers = append(r.servers, p)
	waitFor(r.t, r.state, func() bool { return r.base(n) != "" })
	p.args = append(args, "--listen", strings.TrimPrefix(r.base(n), "http://"))
}

func (r *rig) urlFile(n int) string { return r.path(fmt.Sprintf("url-%d", n)) }

// base returns the URL of a server.
func (r *rig) base(n int) string {
	text, _ := os.ReadFile(r.urlFile(n))
	return strings.TrimSpace(string(text))
}

func (r *rig) url(n int) string { return r.base(n) + "/feeds/events" }

func (r *rig) startConsumer(source, sink string) {
	p := &process{t: r.t, name: "consumer", args: []string{
		"consume", source, "--into", sink, "--follow", "--batch-entities", "100", "--log-level", "error",
	}}
	p.start()
	r.t.Cleanup(func() { p.kill(os.Kill) })
	r.consumers = append(r.consumers, p)
}

func (r *rig) startProducer(i int) {
	args := []string{
		"publish", "events", "--key", "/id", "--content-id", "/id", "--resume", r.resumeFile(i), "--log-level", "error",
	}
	if i%2 == 0 {
		args = append(args, "--store", r.store, "--max-page-entities", "500")
	} else {
		args = append(args, "--to", r.base(i/2%len(r.servers)))
	}
	p := &process{t: r.t, name: "producer", args: args, input: func(w io.Writer) error { return r.feed(i, w) }}
	p.start()
	r.t.Cleanup(func() { p.kill(os.Kill) })
	r.producers = append(r.producers, p)
}

func (r *rig) resumeFile(i int) string { return r.path(fmt.Sprintf("resume-%d", i)) }

// feed writes the input of a producer, as far as allow permits.
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

// allow lets each producer read n entities in total.
func (r *rig) allow(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed = n
	r.changed.Broadcast()
}

// published returns the number of entities that the producers know to be in the feed.
func (r *rig) published() (n int) {
	for i := range producers {
		text, err := os.ReadFile(r.resumeFile(i))
		if err != nil {
			continue // nothing yet
		}
		var state struct{ Published int }
		if err := json.Unmarshal(text, &state); err != nil {
			r.t.Fatalf("resume file has %q: %v", text, err)
		}
		n += state.Published
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

// measureLine waits for the first complete line, and sets lineSize.
func (r *rig) measureLine() {
	waitFor(r.t, r.state, func() bool {
		text, _ := os.ReadFile(r.path("out.jsonl"))
		r.lineSize = int64(bytes.IndexByte(text, '\n') + 1)
		return r.lineSize > 0
	})
}

// inSink returns the number of entities in the sink of a consumer, committed or not.
func (r *rig) inSink(consumer *process) int {
	into := consumer.args[slices.Index(consumer.args, "--into")+1]
	if name, isLines := strings.CutPrefix(into, "jsonl:"); isLines {
		info, err := os.Stat(name)
		if err != nil {
			return 0
		}
		return int(info.Size() / r.lineSize)
	}
	ids, _ := r.readTable() // the table may not exist yet
	return len(ids)
}

// consumed returns the number of lines in the jsonl file, committed or not.
func (r *rig) consumed() int { return int(r.jsonlSize() / r.lineSize) }

// round allows more entities, waits until a random part of them has reached the producers'
// state or the sink, and kills a process. The last part of the entities is for the processes that are restarted after the
// last kill.
func (r *rig) round(k, kills int) {
	before := min(r.published(), r.consumed())
	allowed := r.each * (k + 1) / (kills + 1)
	r.allow(allowed)
	more := allowed*producers - before
	target := before + r.rng.IntN(max(more, 1))
	arrived := r.published
	if r.rng.IntN(2) == 0 {
		arrived = r.consumed
	}
	waitFor(r.t, r.state, func() bool { return arrived() >= target })

	for !r.kill(r.victim(k)) {
	}
}

// victim returns a running process: first one of each kind, then random ones.
func (r *rig) victim(k int) *process {
	kinds := [][]*process{r.servers, r.consumers, r.producers}
	victims := append(slices.Concat(kinds...), r.servers...)
	if k < len(kinds) {
		victims = slices.Clone(kinds[k])
	}
	victims = slices.DeleteFunc(victims, (*process).ended)
	if len(victims) == 0 {
		r.t.Fatalf("all processes have ended: %s", r.state())
	}
	return victims[r.rng.IntN(len(victims))]
}

// kill kills a process and restarts it. It returns false if the process had already completed.
func (r *rig) kill(victim *process) bool {
	r.measure(victim)
	victim.kill(os.Kill)
	if victim.err == nil {
		return false // a producer that had finished
	}
	if status, ok := victim.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("%s exited before it was killed: %v\n%s", victim.name, victim.err, victim.stderr)
	}
	r.killed[victim.name]++
	victim.start()
	return true
}

// Limits of the resident memory of a process, in KiB.
const (
	maxMemory = 64 << 10
	readAhead = 32 << 10 // in addition, for a server whose store is remote
)

// measure records the peak memory of a process, on systems that report it.
func (r *rig) measure(p *process) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, text, found := strings.Cut(string(status), "VmHWM:")
	if err != nil || !found {
		return // the process has ended, or this is not Linux
	}
	var kib int
	if _, err := fmt.Sscan(text, &kib); err != nil {
		r.t.Fatalf("read memory of %s: %v", p.name, err)
	}
	r.peak[p.name] = max(r.peak[p.name], kib)
	limit := maxMemory
	if p.name == "server" && !strings.HasPrefix(r.store, "file:") {
		limit += readAhead
	}
	if kib > limit {
		r.t.Errorf("%s had %d KiB of memory, more than %d", p.name, kib, limit)
	}
}

// finish publishes and consumes the rest.
func (r *rig) finish() {
	r.allow(r.each)
	for _, p := range r.producers {
		waitFor(r.t, r.state, p.ended)
		if p.err != nil {
			r.t.Fatalf("producer: %v\n%s", p.err, p.stderr)
		}
	}
	for _, p := range r.consumers {
		waitFor(r.t, r.state, func() bool { return p.ended() || r.inSink(p) == r.each*producers })
	}
	for _, p := range slices.Concat(r.servers, r.consumers) {
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

// state describes the progress of everything, for when a test stalls.
func (r *rig) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d published", r.published())
	if r.lineSize > 0 {
		fmt.Fprintf(&b, ", %d consumed", r.consumed())
	}
	for _, p := range slices.Concat(r.servers, r.producers, r.consumers) {
		fmt.Fprintf(&b, "\n%s, ended %v:\n%s", p.name, p.ended(), p.stderr)
	}
	return b.String()
}
