package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/sink/dir"
)

var (
	kintoWrites = flag.Int("kinto-writes", 60, "changes that TestKinto makes on each backend")
	kintoKills  = flag.Int("kinto-kills", 4, "processes that TestKinto kills on each backend, at least 4: one of each kind")
)

// A kintoRig is a collection, its feed, and a collection that is filled from the feed.
type kintoRig struct {
	*rig
	writer       *kintoWriter
	foreign      *kintoWriter // writes to the second collection
	server       *kintotest.Server
	into         string // URL of the second collection
	bridge, sink *process
}

// TestKinto has a writer change records while the bridge, the server, the sink and, on PostgreSQL,
// Kinto are killed with SIGKILL at random points and restarted. A second writer changes the same records
// in the second collection, until the first writer changes all of them once more. Then both collections must be
// equal but for their stamps, the feed must hold each version once, and a consumer of the feed must end with the records of
// the first collection, byte for byte. For 100 kills: -args -kinto-kills 100 -kinto-writes 1000.
func TestKinto(t *testing.T) {
	t.Parallel()
	for _, backend := range kintotest.Backends {
		t.Run(string(backend), func(t *testing.T) {
			r := newKintoRig(t, backend)
			r.walk(*kintoWrites, *kintoKills, walker{r.write, r.progress(), r.kintoState, func(k int) { r.killKinto(backend, k) }})
			r.changeAll()
			r.drain(r.bridge, r.sink)
			t.Logf("%d changes; killed: %v; most memory in KiB: %v", r.writer.done.Load(), r.killed, r.peak)
			r.checkKinto()
		})
	}
}

func newKintoRig(t *testing.T, backend kintotest.Backend) *kintoRig {
	r := &kintoRig{
		rig: &rig{
			t: t, rng: rand.New(rand.NewPCG(newSeed(t), 0)), dir: t.TempDir(), store: "file:" + t.TempDir(),
			killed: map[string]int{}, peak: map[string]int{},
		},
	}
	if backend == kintotest.PostgreSQL { // it is killed
		r.server = kintotest.StartOwn(t, backend, pagedBy)
	} else {
		r.server = pagedKinto(t)
	}
	r.changed.L = &r.mu
	from := r.server.NewCollection(t)
	r.into = r.server.NewCollection(t)
	r.writer = &kintoWriter{rng: rand.New(rand.NewPCG(*seed, 1)), collection: from}
	r.foreign = &kintoWriter{rng: rand.New(rand.NewPCG(*seed, 2)), collection: r.into}
	kintotest.Send(t, http.MethodPut, r.positions(), "")
	if err := os.WriteFile(r.credential(), []byte("basic "+kintotest.User+":"+kintotest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	feedctl(t, "init", r.store)
	r.startServer(0)
	r.bridge = &process{t: t, name: "bridge", args: []string{
		"bridge", "kinto", from, "events", "--store", r.store, "--follow", "--interval", "100ms", "--index", r.path("index"),
		"--max-page-entities", strconv.Itoa(bridgePage), "--credentials-file", r.credential(), "--log-level", "error",
	}}
	r.sink = &process{t: t, name: "sink", args: []string{
		"consume", r.url(0), "--into", "kinto:" + r.into, "--follow", "--batch-entities", "20", "--into-credentials-file", r.credential(), "--log-level", "error",
	}}
	for _, p := range []*process{r.bridge, r.sink} {
		p.start()
		t.Cleanup(func() { p.kill(os.Kill) })
	}
	return r
}

// killKinto kills a process and restarts it: first one of each kind, then random ones.
func (r *kintoRig) killKinto(backend kintotest.Backend, k int) {
	victims := []*process{r.bridge, r.servers[0], r.sink}
	kinds := len(victims)
	if backend == kintotest.PostgreSQL { // the memory backend would lose everything
		kinds++
	}
	if k >= kinds {
		k = r.rng.IntN(kinds)
	}
	if k == len(victims) {
		r.server.Kill()
		if err := r.server.Restart(); err != nil {
			r.t.Fatal(err)
		}
		r.killed["kinto"]++
		return
	}
	if victim := victims[k]; victim.ended() || !r.kill(victim) {
		r.t.Fatalf("%s exited before it was killed: %v\n%s", victim.name, victim.err, victim.stderr)
	}
}

// progress returns the progress of the writer, the feed and the sink, as numbers that grow.
func (r *kintoRig) progress() [3]func() int64 {
	checked := func(f func() int64) func() int64 {
		return func() int64 {
			for _, p := range []*process{r.bridge, r.sink} {
				if p.ended() {
					r.t.Fatalf("%s has ended: %v\n%s", p.name, p.err, p.stderr)
				}
			}
			return f()
		}
	}
	return [...]func() int64{checked(r.writer.done.Load), checked(r.inFeed), checked(func() int64 { return kintoStamp(r.t, r.positions()) })}
}

// positions returns the URL of the collection to which only the sink writes.
func (r *kintoRig) positions() string {
	bucket, _, _ := strings.Cut(r.into, "/collections/")
	return bucket + "/collections/feedctl-positions"
}

// write makes a change in each collection.
func (r *kintoRig) write(ctx context.Context) error {
	if err := r.writer.write(ctx); err != nil {
		return err
	}
	return r.foreign.write(ctx)
}

// changeAll changes all records in the first collection, and then deletes some. It waits until the second collection has
// the changes.
func (r *kintoRig) changeAll() {
	for _, id := range kintoIDs() {
		kintotest.Send(r.t, http.MethodPut, r.writer.collection+"/records/"+id, `{"data":{"all":true}}`)
	}
	r.arrive("all")
	for n, id := range kintoIDs() {
		if n%3 == 0 {
			kintotest.Send(r.t, http.MethodDelete, r.writer.collection+"/records/"+id, "")
		}
	}
	r.arrive("end")
}

// arrive writes a record and waits until it has reached the second collection.
func (r *kintoRig) arrive(id string) {
	kintotest.Send(r.t, http.MethodPut, r.writer.collection+"/records/"+id, `{"data":{}}`)
	waitFor(r.t, r.kintoState, func() bool {
		response, _ := kintotest.Try(r.t, http.MethodGet, r.into+"/records/"+id, "")
		return response.StatusCode == http.StatusOK
	})
}

func (r *kintoRig) kintoState() string {
	state := fmt.Sprintf("%d changes written, %d entities in the feed", r.writer.done.Load(), r.inFeed())
	for _, p := range []*process{r.bridge, r.servers[0], r.sink} {
		state += fmt.Sprintf("\n%s, ended %v:\n%s", p.name, p.ended(), p.stderr)
	}
	return state
}

func (r *kintoRig) checkKinto() {
	source := kintoRecords(r.t, r.writer.collection)
	if len(source) == 0 {
		r.t.Error("the writer has left no records")
	}
	if diff := cmp.Diff(bareRecords(r.t, source), bareRecords(r.t, kintoRecords(r.t, r.into))); diff != "" {
		r.t.Errorf("the second collection differs (-want +got):\n%s", diff)
	}
	published := map[string]bool{}
	for _, id := range readFeed(r.t, r.url(0)) {
		if published[id] {
			r.t.Errorf("%s is in the feed twice", id)
		}
		published[id] = true
	}
	folded := r.path("folded")
	feedctl(r.t, "consume", r.url(0), "--into", "dir:"+folded)
	files, err := filepath.Glob(filepath.Join(folded, "[^.]*"))
	if err != nil || len(files) != len(source) {
		r.t.Errorf("the feed ends with %d records, the collection has %d: %v", len(files), len(source), err)
	}
	for id, record := range source {
		if got, err := os.ReadFile(filepath.Join(folded, dir.FileName(id))); err != nil || string(got) != string(record) {
			r.t.Errorf("the feed ends with %s as %s, the collection has %s: %v", id, got, record, err)
		}
	}
	feedctl(r.t, "verify", r.url(0))
	for _, collection := range []string{r.writer.collection, r.into} {
		feedctl(r.t, "verify", "events", "--store", r.store, "--against", "kinto:"+collection, "--against-credentials-file", r.credential(), "--deep")
	}
}

// bareRecords returns the texts of records without their stamps. They can be compared only between collections on the same
// backend: PostgreSQL sorts the members of a record, and memory keeps their order.
func bareRecords(t *testing.T, records map[string]json.RawMessage) map[string]string {
	t.Helper()
	bare, stamp := map[string]string{}, regexp.MustCompile(`"last_modified":\d+,|,"last_modified":\d+`)
	for id, record := range records {
		at := stamp.FindAllIndex(record, -1)
		if len(at) != 1 {
			t.Fatalf("%s: %d stamps", record, len(at))
		}
		bare[id] = string(record[:at[0][0]]) + string(record[at[0][1]:])
	}
	return bare
}

// plainRecords returns records as JSON values, without their stamps.
func plainRecords(t *testing.T, records map[string]json.RawMessage) map[string]any {
	t.Helper()
	plain := map[string]any{}
	for id, record := range records {
		var members map[string]any
		if err := json.Unmarshal(record, &members); err != nil {
			t.Fatalf("%s: %v", record, err)
		}
		delete(members, "last_modified")
		plain[id] = members
	}
	return plain
}
