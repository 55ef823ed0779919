package kinds_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
)

// A later store has a clock that is two hours fast, so objects that were just written can be pruned.
type later struct{ storage.Store }

func (l later) Unwrap() storage.Store { return l.Store }

func (l later) Now(ctx context.Context) (time.Time, error) {
	now, err := storage.Now(ctx, l.Store, time.Now)
	return now.Add(2 * time.Hour), err
}

// An ending is a kind that calls ended whenever a run has ended.
type ending struct {
	jobs.Kind
	ended func()
}

func (e ending) Run(ctx context.Context, s *jobs.Session) error {
	defer e.ended()
	return e.Kind.Run(ctx, s)
}

// beside runs two jobs to their ends, each on a scheduler of its own. The first run waits at its first
// operation on the store for which at returns true, until the second run has also reached such an
// operation, or has ended.
func (s *scene) beside(at func(fault.Op) bool, first, second jobs.Document) (results [2]string) {
	s.Helper()
	stands, came := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(came) })
	stand := sync.OnceFunc(func() { close(stands); <-came })
	on := func(do func()) jobs.Kinds {
		return kinds.On(func() storage.Store {
			return kept{fault.Wrap(s.store, func(o fault.Op) fault.Outcome {
				if at(o) {
					do()
				}
				return fault.Pass
			})}
		})
	}
	first.Name, second.Name = "job", "job"
	a, _ := s.scheduleAs(on(stand), first)
	s.Cleanup(release)
	s.await(a, "job", func(*jobs.Job) bool {
		select {
		case <-stands:
			return true
		default:
			return false
		}
	})
	known := on(release)
	for name, k := range known {
		known[name] = ending{k, release}
	}
	b, _ := s.scheduleAs(known, second)
	for n, scheduler := range []*jobs.Scheduler{a, b} {
		results[n] = s.await(scheduler, "job", completed).Reason
	}
	return results
}

func anywhere(fault.Op) bool    { return true }
func writing(op fault.Op) bool  { return op.Verb.Writes() }
func deleting(op fault.Op) bool { return op.Verb == fault.Delete }

// TestOnce tests kinds of jobs that end: it runs each job twice at the same time.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.publish("zones", 100)
	source := s.url() + "#zones"
	for _, test := range []struct {
		at     func(fault.Op) bool
		d      jobs.Document
		result string
	}{
		{anywhere, jobs.Document{Kind: "verify", Source: source}, `no violations in \d+ pages? with 100 entities`},
		{writing, jobs.Document{Kind: "snapshot from-feed", Source: source}, `snapshot zones/\S+ with \d+ pages?`},
		{anywhere, jobs.Document{Kind: "consume", Source: source, Target: "jsonl:" + s.path("out"), Options: map[string]jobs.Values{"from": {"snapshot"}}}, ""},
	} {
		for _, got := range s.beside(test.at, test.d, test.d) {
			if !regexp.MustCompile("^" + test.result + "$").MatchString(got) {
				t.Errorf("%s has the result %q, want %q", test.d.Kind, got, test.result)
			}
		}
	}
	ids, _, err := snapshots.List(t.Context(), s.store, "zones")
	if err != nil || len(ids) != 2 {
		t.Errorf("snapshots %q, %v, want two", ids, err)
	}
	if n := strings.Count(s.read("out"), "\n"); n != len(s.numbers()) {
		t.Errorf("%d entities were copied, want one for each of %d keys", n, len(s.numbers()))
	}
}

// TestPrune prunes a feed in two runs at the same time: the second run keeps as many pages as the
// first, fewer or more. It begins when the first is about to raise the floor, or to delete the first
// page. The two pages that both runs keep are left, and the feed is valid.
func TestPrune(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at          func(fault.Op) bool
		keep, other string
	}{
		"same floor":   {writing, "2", "2"},
		"raised twice": {writing, "2", "3"},
		"raised more":  {writing, "3", "2"},
		"same pages":   {deleting, "2", "2"},
		"more pages":   {deleting, "3", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.publish("zones", 100)
			s.store = later{s.store}
			prune := func(keep string) jobs.Document {
				return jobs.Document{Kind: "prune", Target: s.url() + "#zones", Options: map[string]jobs.Values{"keep-pages": {keep}}}
			}
			t.Logf("%q", s.beside(test.at, prune(test.keep), prune(test.other)))
			feed := chain.NewReader(s.store, "zones")
			if floor, err := feed.Floor(t.Context()); err != nil || floor != 4 {
				t.Errorf("the oldest page is %d (%v), want 4", floor, err)
			}
			for _, deleted := range []int64{1, 2, 3} {
				if _, err := s.store.Stat(t.Context(), layout.FeedPage("zones", deleted)); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("page %d still exists: %v", deleted, err)
				}
			}
			verified, _ := s.schedule(jobs.Document{Name: "job", Kind: "verify", Source: s.url() + "#zones"})
			if got := s.await(verified, "job", completed).Reason; got != "no violations in 2 pages with 40 entities" {
				t.Errorf("after pruning: %s", got)
			}
		})
	}
}

// TestBucketBeside bridges a bucket in two runs at the same time, as on two nodes: the feed of each
// collection has each record of the collection once.
func TestBucketBeside(t *testing.T) {
	t.Parallel()
	s, fake := newScene(t), kintotest.NewFake(t)
	bucket, _, _ := strings.Cut(fake.NewCollection(t), "/collections/")
	want := map[string]bool{}
	for _, collection := range []string{"a", "b"} {
		kintotest.Send(t, http.MethodPut, bucket+"/collections/"+collection, "")
		for _, record := range []string{"1", "2", "3"} {
			kintotest.Send(t, http.MethodPut, bucket+"/collections/"+collection+"/records/"+record, `{"data":{}}`)
			want[record] = true
		}
	}
	bridge := func(index string) jobs.Document {
		return jobs.Document{Kind: "bridge kinto", Source: bucket, Target: s.url() + "#k-*", Options: map[string]jobs.Values{
			"collections": {"a", "b"}, "index": {s.path(index)}, "max-page-entities": {"1"}}}
	}
	s.beside(writing, bridge("index-a"), bridge("index-b"))
	for _, collection := range []string{"a", "b"} {
		scheduler, _ := s.schedule(jobs.Document{Name: "copy", Kind: "consume", Source: s.url() + "#k-" + collection, Target: "jsonl:" + s.path(collection)})
		s.await(scheduler, "copy", completed)
		var keys []string
		for line := range strings.Lines(s.read(collection)) {
			_, rest, _ := strings.Cut(line, `"key":"`)
			key, _, _ := strings.Cut(rest, `"`)
			keys = append(keys, key)
		}
		if slices.Sort(keys); !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
			t.Errorf("feed k-%s has the records %q, want each of %v once", collection, keys, want)
		}
	}
}
