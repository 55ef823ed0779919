package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// recordsFeed is the feed of a collection of Kinto.
const recordsFeed = "records"

// pagedKinto returns a Kinto server that tests share, and so must not kill. It sends only a few
// records at a time.
func pagedKinto(t *testing.T) *kintotest.Server {
	t.Helper()
	server, err := launchPaged()
	if err != nil {
		t.Fatalf("start Kinto server: %v", err)
	}
	return server
}

const pagedBy = "paginate_by=7"

var launchPaged = sync.OnceValues(func() (*kintotest.Server, error) { return kintotest.Launch(kintotest.Memory, pagedBy) })

// startKinto makes a collection, and writes the file with the credential for it.
func (r *jobsRig) startKinto() {
	r.kinto = pagedKinto(r.t)
	r.records = &kintoWriter{rng: rand.New(rand.NewPCG(*seed, jobSources+1)), collection: r.collection(recordsFeed)}
	if err := os.WriteFile(r.credential(), []byte("basic "+kintotest.User+":"+kintotest.Password), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// credential is the name of the file with the credential for Kinto.
func (r *rig) credential() string { return r.path("kinto.txt") }

// collection returns the URL of a collection by its name.
func (r *jobsRig) collection(name string) string {
	name = "collection " + name
	if r.copies[name] == "" {
		r.copies[name] = r.kinto.NewCollection(r.t)
	}
	return r.copies[name]
}

// readKinto returns the records of a collection without their stamps, in the order of their ids.
func (r *jobsRig) readKinto(collection string) (lines []string) {
	records := plainRecords(r.t, kintoRecords(r.t, collection))
	for _, id := range slices.Sorted(maps.Keys(records)) {
		text, err := json.Marshal(records[id])
		if err != nil {
			r.t.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	return lines
}

// endRecords writes the last record.
func (r *jobsRig) endRecords() {
	if err := r.records.try(r.t.Context(), http.MethodPut, r.records.collection+"/records/"+lastKey, `{"data":{}}`); err != nil {
		r.t.Fatal(err)
	}
}

// checkRecords compares the feed of the collection, and its copy in another collection, with the
// collection.
func (r *jobsRig) checkRecords() {
	r.verify(recordsFeed)
	published := map[string]bool{}
	for _, id := range readFeed(r.t, r.base(0)+"/feeds/"+recordsFeed) {
		if published[id] {
			r.differs("feed %s has %s twice", recordsFeed, id)
		}
		published[id] = true
	}
	want := r.readKinto(r.records.collection)
	copied := r.collection(recordsFeed + "-kinto")
	r.compared += len(want)
	if diff := cmp.Diff(want, r.readKinto(copied)); diff != "" {
		r.differs("the second collection differs (-want +got):\n%s", diff)
	}
	for _, collection := range []string{r.records.collection, copied} {
		feedctl(r.t, "verify", recordsFeed, "--store", r.store, "--against", "kinto:"+collection, "--against-credentials-file", r.credential(), "--deep")
	}
}

// consume runs the command of a consume job with the given target.
func (r *jobsRig) consume(j *chaosJob, target string) {
	args := []string{"consume", j.source, "--into", target, "--log-level", "error"}
	if j.sink == "kinto" {
		args = append(args, "--into-credentials-file", r.credential())
	}
	feedctl(r.t, args...)
}

// differs reports a difference from the result of a run without faults.
func (r *jobsRig) differs(format string, args ...any) {
	r.t.Helper()
	r.differences++
	r.t.Errorf(format, args...)
}

// summarize prints what the test has done, even if it has failed.
func (r *jobsRig) summarize() {
	kinds := map[string]int{}
	for _, j := range r.jobs {
		kinds[strings.TrimSpace(j.kind+" "+j.sink)]++
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	sum := func(names ...string) (n int) {
		for _, name := range names {
			n += r.done[name]
		}
		return n
	}
	r.t.Logf("seed: %d, steps: %d of %d (%s)\njobs: %s\nkills: %d, freezes: %d, outages: %d, changes of documents and records: %d, rows: %d\nrows compared: %d, differences: %d",
		*seed, r.steps, *jobsSteps, r.doneText(), strings.Join(list, ", "), sum("kill", "kill the server", "kill the database"), sum("freeze"),
		sum("stop the database", "kill the database", "lock the database"),
		r.writers[0].done.Load()+r.writers[1].done.Load()+r.records.done.Load(), r.written[0]+r.written[1], r.compared, r.differences)
}
