package kinds_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// both runs one job that follows on two schedulers at the same time, and calls write, which changes the
// source. Afterwards, the feed must have each entity once, with its body.
func both(s *scene, feed string, document func() jobs.Document, key func(n int) string, write func(n int)) {
	for n := range 20 {
		write(n)
	}
	a, stopA := s.schedule(document())
	has := func(want int) func(*jobs.Job) bool {
		return func(*jobs.Job) bool { return strings.Count(s.read("out"), "\n") >= want }
	}
	s.schedule(jobs.Document{Name: "copy", Kind: "consume", Source: s.url() + "#" + feed, Target: "jsonl:" + s.path("out"), Follow: true})
	s.await(a, "job", has(20))
	b, _ := s.schedule(document())
	for n := range 20 {
		write(20 + n)
	}
	s.await(a, "job", has(40))
	stopA()
	write(40)
	s.await(b, "job", has(41))
	type entity struct {
		Key  string
		Body struct{ N int }
	}
	var got, want []entity
	for line := range strings.Lines(s.read("out")) {
		var e entity
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatal(err)
		}
		got = append(got, e)
	}
	for n := range 41 {
		want = append(want, entity{key(n), struct{ N int }{n}})
	}
	byNumber := func(a, b entity) int { return a.Body.N - b.Body.N }
	slices.SortFunc(got, byNumber)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the feed differs: %s", diff)
	}
}

// TestBridge runs two bridges from one database to one feed.
func TestBridge(t *testing.T) {
	t.Parallel()
	s, db := newScene(t), couchtest.NewDB(t)
	both(s, "docs", func() jobs.Document {
		return jobs.Document{Name: "job", Kind: "bridge couchdb", Source: db, Target: s.url() + "#docs", Follow: true,
			Options: map[string]jobs.Values{"index": {s.path("index")}}}
	}, func(n int) string { return fmt.Sprint("doc", n) }, func(n int) {
		couchtest.Send(t, http.MethodPut, fmt.Sprint(db, "/doc", n), fmt.Sprintf(`{"n":%d}`, n))
	})
}

// TestBridgeKinto runs two bridges from one collection to one feed.
func TestBridgeKinto(t *testing.T) {
	t.Parallel()
	s, collection := newScene(t), kintotest.Start(t, kintotest.Memory).NewCollection(t)
	both(s, "records", func() jobs.Document {
		return jobs.Document{Name: "job", Kind: "bridge kinto", Source: collection, Target: s.url() + "#records", Follow: true,
			Options: map[string]jobs.Values{"index": {s.path("index")}, "interval": {"100ms"}}}
	}, func(n int) string { return fmt.Sprint("r", n) }, func(n int) {
		kintotest.Send(t, http.MethodPut, fmt.Sprint(collection, "/records/r", n), fmt.Sprintf(`{"data":{"n":%d}}`, n))
	})
}

// TestOutbox runs two jobs that move the outbox rows of the same feed.
func TestOutbox(t *testing.T) {
	t.Parallel()
	s, url := newScene(t), pgtest.Start(t).URL("kinds")
	document := func() jobs.Document {
		return jobs.Document{Name: "job", Kind: "outbox run", Source: url, Target: s.url(), Follow: true, Options: map[string]jobs.Values{"feed": {"rows"}}}
	}
	setup := document()
	setup.Follow = false
	scheduler, stop := s.schedule(setup) // creates the tables
	s.await(scheduler, "job", completed)
	stop()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	both(s, "rows", document, func(n int) string { return fmt.Sprint(n) }, func(n int) {
		if _, err := conn.Exec(t.Context(), "SELECT feedctl.publish('rows', $1, 'PUT', $2::text)", fmt.Sprint(n), fmt.Sprintf(`{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBridgeBucket: a job that bridges a bucket is idle once it has published all collections. As long as
// one collection is missing, the runs of the job crash, but still publish the others.
func TestBridgeBucket(t *testing.T) {
	t.Parallel()
	s, fake := newScene(t), kintotest.NewFake(t)
	first := fake.NewCollection(t)
	bucket, _, _ := strings.Cut(first, "/collections/")
	put := func(collection, record string) {
		kintotest.Send(t, http.MethodPut, bucket+"/collections/"+collection, "")
		kintotest.Send(t, http.MethodPut, bucket+"/collections/"+collection+"/records/"+record, `{"data":{}}`)
	}
	put("a", "1")
	put("b", "1")
	scheduler, _ := s.schedule(jobs.Document{Name: "job", Kind: "bridge kinto", Source: bucket, Target: s.url() + "#k-*", Follow: true,
		Options: map[string]jobs.Values{"collections": {"a", "b"}, "index": {s.path("index")}}})
	has := func(feed string, want int) {
		t.Helper()
		newest, err := chain.NewReader(s.store, feed).Newest(t.Context())
		if err != nil || newest.Entities != want {
			t.Errorf("feed %s: %+v: %v", feed, newest, err)
		}
	}
	s.await(scheduler, "job", func(j *jobs.Job) bool { return j.State == jobs.Idle })
	has("k-a", 1)
	has("k-b", 1)
	kintotest.Send(t, http.MethodDelete, bucket+"/collections/a", "")
	put("b", "2")
	if _, err := scheduler.Restart(t.Context(), "test/job"); err != nil {
		t.Fatal(err)
	}
	s.await(scheduler, "job", func(j *jobs.Job) bool {
		return j.Shown() == jobs.Crashing && strings.HasPrefix(j.Reason, "1 of 2 collections failed")
	})
	has("k-a", 1)
	has("k-b", 2)
}
