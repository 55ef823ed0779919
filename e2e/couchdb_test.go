package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

var (
	couchWrites = flag.Int("couch-writes", 160, "changes that TestCouchDB makes")
	couchKills  = flag.Int("couch-kills", 8, "processes that TestCouchDB kills, at least 5: one of each kind")
)

// bridgePage is the number of entities on a page of a bridge's feed.
const bridgePage = 50

// A couchRig is a source database, its feed, and a target database that is filled from the
// feed.
type couchRig struct {
	*rig
	writer         *couchWriter
	source, target *couchtest.Server
	from, into     string // URLs of the databases
	bridge, sink   *process
}

// TestCouchDB has a writer create, update and delete documents, attach files, and create
// and resolve conflicts, while the bridge, the server, the sink and both databases are
// killed with SIGKILL at random points and restarted. Then both databases must be equal,
// and the feed must hold every revision once.
func TestCouchDB(t *testing.T) {
	t.Parallel()
	r := newCouchRig(t)
	r.walk(*couchWrites, *couchKills, walker{r.writer.write, r.progress(), r.couchState, r.killCouch})
	r.arrive("the end")
	r.drain(r.bridge, r.sink)
	t.Logf("%d changes; killed: %v; most memory in KiB: %v", r.writer.done.Load(), r.killed, r.peak)
	for _, name := range []string{"bridge", "server", "sink", "source", "target"} {
		if r.killed[name] == 0 {
			t.Errorf("no %s was killed", name)
		}
	}
	r.checkCouch()
}

func newCouchRig(t *testing.T) *couchRig {
	r := &couchRig{
		rig: &rig{
			t: t, rng: rand.New(rand.NewPCG(newSeed(t), 0)), dir: t.TempDir(), store: "file:" + t.TempDir(),
			killed: map[string]int{}, peak: map[string]int{},
		},
		source: couchtest.StartOwn(t), target: couchtest.StartOwn(t),
	}
	r.changed.L = &r.mu
	r.from, r.into = r.source.NewDB(t), r.target.NewDB(t)
	r.writer = &couchWriter{rng: rand.New(rand.NewPCG(*seed, 1)), db: r.from}
	feedctl(t, "init", r.store)
	r.startServer(0)
	r.bridge = &process{t: t, name: "bridge", args: []string{
		"bridge", "couchdb", r.from, "events", "--store", r.store, "--follow", "--revs", "--conflicts", "--design-docs",
		"--attachments", "multipart", "--index", r.path("index"), "--max-page-entities", strconv.Itoa(bridgePage), "--log-level", "error",
	}}
	r.sink = &process{t: t, name: "sink", args: []string{
		"consume", r.url(0), "--into", "couchdb:" + r.into, "--follow", "--batch-entities", "20", "--log-level", "error",
	}}
	for _, p := range []*process{r.bridge, r.sink} {
		p.start()
		t.Cleanup(func() { p.kill(os.Kill) })
	}
	return r
}

// killCouch kills a process or a database and restarts it: first one of each kind, then
// random ones.
func (r *couchRig) killCouch(k int) {
	const kinds = 5
	if k >= kinds {
		k = r.rng.IntN(kinds)
	}
	if databases := map[int]*couchtest.Server{3: r.source, 4: r.target}; databases[k] != nil {
		databases[k].Kill()
		if err := databases[k].Restart(); err != nil {
			r.t.Fatal(err)
		}
		r.killed[map[int]string{3: "source", 4: "target"}[k]]++
		return
	}
	victim := []*process{r.bridge, r.servers[0], r.sink}[k]
	if victim.ended() || !r.kill(victim) {
		r.t.Fatalf("%s exited before it was killed: %v\n%s", victim.name, victim.err, victim.stderr)
	}
}

// progress returns the progress of the writer, the feed and the target, as numbers that
// grow.
func (r *couchRig) progress() [3]func() int64 {
	return [...]func() int64{r.writer.done.Load, r.inFeed, func() int64 { return updates(r.t, r.into) }}
}

// inFeed returns the number of entities in the feed, if all pages but the last are full.
func (r *rig) inFeed() int64 {
	store, err := storage.Registry{"file": file.Open}.Open(r.t.Context(), r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	newest, err := chain.NewReader(store, "events").Newest(r.t.Context())
	if errors.Is(err, chain.ErrNoFeed) {
		return 0
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return (newest.Number-1)*bridgePage + int64(newest.Entities)
}

// arrive writes a document and waits until it has reached the target.
func (r *couchRig) arrive(id string) {
	if err := r.writer.update(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	copied := couchWriter{db: r.into}
	waitFor(r.t, r.couchState, func() bool {
		_, found, err := copied.get(r.t.Context(), id)
		return found && err == nil
	})
}

// drain stops the bridge and the sink, which were following, and runs each once more to the end.
// The bridge runs without its index, which it must be able to rebuild.
func (r *rig) drain(bridge, sink *process) {
	for _, p := range []*process{bridge, sink} {
		r.measure(p)
		p.kill(syscall.SIGINT)
		if code := p.cmd.ProcessState.ExitCode(); code != 130 {
			r.t.Fatalf("%s: exit status %d after SIGINT\n%s", p.name, code, p.stderr)
		}
		if err := os.RemoveAll(r.path("index")); err != nil {
			r.t.Fatal(err)
		}
		feedctl(r.t, slices.DeleteFunc(slices.Clone(p.args), func(arg string) bool { return arg == "--follow" })...)
	}
}

func (r *couchRig) checkCouch() {
	differences, err := couchdiff.Compare(r.t.Context(), r.from, r.into)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range differences {
		r.t.Error(d)
	}
	published := map[string]int{}
	for _, id := range readFeed(r.t, r.url(0)) {
		revision, err := url.PathUnescape(strings.Trim(id, "<>"))
		if err != nil {
			r.t.Fatalf("Content-ID %q: %v", id, err)
		}
		published[revision]++
	}
	for revision, n := range published {
		if n > 1 {
			r.t.Errorf("%s is in the feed %d times", revision, n)
		}
	}
	leaves := r.leaves()
	for _, leaf := range leaves {
		if published[leaf] == 0 {
			r.t.Errorf("%s is not in the feed", leaf)
		}
	}
	if len(leaves) < documents {
		r.t.Errorf("the source has only %d leaves", len(leaves))
	}
	feedctl(r.t, "verify", r.url(0))
	feedctl(r.t, "verify", "events", "--store", r.store)
}

// leaves returns the leaf revisions in the source, as ID@REV.
func (r *couchRig) leaves() (list []string) {
	response, err := http.Get(r.from + "/_changes?style=all_docs")
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var feed struct {
		Results []struct {
			ID      string
			Changes []struct{ Rev string }
		}
	}
	if err := json.Unmarshal(body, &feed); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	for _, row := range feed.Results {
		for _, leaf := range row.Changes {
			list = append(list, row.ID+"@"+leaf.Rev)
		}
	}
	return list
}

func (r *couchRig) couchState() string {
	state := fmt.Sprintf("%d changes written, %d entities in the feed", r.writer.done.Load(), r.inFeed())
	for _, p := range []*process{r.bridge, r.servers[0], r.sink} {
		state += fmt.Sprintf("\n%s, ended %v:\n%s", p.name, p.ended(), p.stderr)
	}
	return state
}
