package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

func runJob(t *testing.T, j Job) (Stats, error) {
	t.Helper()
	if j.URL == "" {
		j.URL = feedURL
	}
	return j.Run(t.Context())
}

// TestJob consumes a feed, runs again when there is nothing new, and then continues with new entities.
func TestJob(t *testing.T) {
	f := newFeed("a0 b1 | c1 d2")
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		job := Job{Client: w.newClient(Config{}), Sink: sink}
		stats, err := runJob(t, job)
		if err != nil {
			t.Fatal(err)
		}
		sink.expect("a b c d")
		if diff := cmp.Diff(Stats{Entities: 4, Bytes: 36, Batches: 1}, stats); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(feed.Position{LastModified: second(2), ContentID: "d", Page: pageURL + "2", Feed: feedURL, Committed: time.Now().UTC()}, sink.at); diff != "" {
			t.Error(diff)
		}
		if stats, err := runJob(t, job); err != nil || !cmp.Equal(stats, Stats{}) {
			t.Errorf("nothing new: %+v and error %v", stats, err)
		}
		f.append("e3")
		f.addPage("f4")
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		sink.expect("a b c d e f")
	})
}

// TestJobElsewhere: a sink continues its feed at another URL, and another feed is not mistaken for it,
// even if its pages have the same URLs.
func TestJobElsewhere(t *testing.T) {
	f := newFeed("a0 b1 | c1 d2")
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		job := Job{Client: w.newClient(Config{AllowOrigins: []string{"http://feed.test"}}), Sink: sink}
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		f.append("e3")
		job.URL = strings.Replace(feedURL, "//", "//moved.", 1)
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		sink.expect("a b c d e")
		job.Feed = "store#feed" // the same URL with another name for the feed
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		if at, err := sink.Position(t.Context()); err != nil || at.Feed != job.URL {
			t.Errorf("without new entities the position is %+v, %v", at, err)
		}
		f.append("f4")
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		if at, err := sink.Position(t.Context()); err != nil || at.Feed != "store#feed" {
			t.Errorf("position %+v, %v", at, err)
		}
		job.Feed = ""
		sink.expect("a b c d e f")
		w.requests()
		w.mu.Lock()
		w.handler = newFeed("v0 w1 | x2 y4")
		w.mu.Unlock()
		job.URL = feedURL
		var lost *ContentIDNotFoundError
		if _, err := runJob(t, job); !errors.As(err, &lost) {
			t.Errorf("another feed: %v", err)
		}
		if n := count(w.requests(), "GET "+strings.TrimPrefix(pageURL, "http://")+"2"); n > 1 {
			t.Errorf("page 2 was requested %d times", n)
		}
		sink.expect("a b c d e f")
	})
}

// TestBatches checks when batches are committed.
func TestBatches(t *testing.T) {
	inWorld(t, newFeed("a0 b0 c0 | d0 e0 f0 | g0"), func(t *testing.T, w *world) {
		for _, test := range []struct {
			name string
			job  Job
			slow time.Duration
			want []int
		}{
			{"at the end", Job{}, 0, []int{7}},
			{"by count", Job{BatchEntities: 3}, 0, []int{3, 3, 1}},
			{"by bytes", Job{BatchBytes: 15}, 0, []int{2, 2, 2, 1}},
			{"by age", Job{BatchInterval: 3 * time.Second}, time.Second, []int{3, 3, 1}},
			{"each", Job{BatchEntities: 1}, 0, []int{1, 1, 1, 1, 1, 1, 1}},
		} {
			sink := &memorySink{t: t, apply: func(*feed.Entity) error { time.Sleep(test.slow); return nil }}
			test.job.Client, test.job.Sink = w.newClient(Config{}), sink
			if _, err := runJob(t, test.job); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, sink.commits); diff != "" {
				t.Errorf("%s: %s", test.name, diff)
			}
			sink.expect("a b c d e f g")
		}
	})
}

// TestJobFollows: new entities are committed at once, and there are no other commits.
func TestJobFollows(t *testing.T) {
	f := newFeed("a0")
	f.longPoll = true
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		job := Job{Client: w.newClient(Config{Follow: true}), URL: feedURL, Sink: sink, BatchInterval: time.Hour}
		go func() {
			_, err := job.Run(ctx)
			done <- err
		}()
		synctest.Wait()
		sink.expect("a")
		f.append("b1", "c1")
		synctest.Wait()
		sink.expect("a b c")
		f.addPage("d1")
		synctest.Wait()
		sink.expect("a b c d")
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]int{1, 2, 1}, sink.commits); diff != "" {
			t.Error(diff)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		sink.expect("a b c d")
	})
}

// TestJobIdle: when Idle is called, the job has committed all entities that the feed had at the
// previous call.
func TestJobIdle(t *testing.T) {
	for _, longPoll := range []bool{false, true} {
		f := newFeed("a0")
		f.longPoll = longPoll
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t}
			published, before, calls := 1, 0, 0
			c := w.newClient(Config{Follow: true, Idle: func() {
				if len(sink.got) < before {
					t.Errorf("%d entities are committed, there were %d at the previous call", len(sink.got), before)
				}
				before = published
				calls++
			}})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			job := Job{Client: c, URL: feedURL, Sink: sink}
			go func() {
				_, err := job.Run(ctx)
				done <- err
			}()
			for n := range 100 {
				time.Sleep(time.Duration(n) * time.Second)
				synctest.Wait()
				published++ // counted before a request can find it
				if n%3 == 0 {
					f.addPage(fmt.Sprintf("x%d-9", n))
				} else {
					f.append(fmt.Sprintf("y%d-9", n))
				}
			}
			if calls < 100 || before < 90 {
				t.Errorf("called %d times, last after %d entities", calls, before)
			}
			stop()
			<-done
		})
	}
}

// TestJobIdleAtOnce: Idle is called as soon as the entities in the response to a long-poll have been
// committed.
func TestJobIdleAtOnce(t *testing.T) {
	f := newFeed("a0")
	f.longPoll = true
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		committed := -1
		c := w.newClient(Config{Follow: true, Idle: func() { committed = len(sink.got) }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		job := Job{Client: c, URL: feedURL, Sink: sink}
		go func() {
			_, err := job.Run(ctx)
			done <- err
		}()
		for n := 1; n < 4; n++ {
			synctest.Wait()
			if committed != n {
				t.Errorf("called last when %d entities were committed, want %d", committed, n)
			}
			f.append(fmt.Sprintf("b%d-%d", n, n))
		}
		stop()
		<-done
	})
}

// TestJobLatest: the position at the end is stored even if there were no entities.
func TestJobLatest(t *testing.T) {
	f := newFeed("a0 b1")
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		job := Job{Client: w.newClient(Config{}), Sink: sink, From: Latest()}
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		f.append("c2")
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		sink.expect("c")
	})
}

// TestJobInterrupted cancels the context before each entity is applied, and in the middle of it.
func TestJobInterrupted(t *testing.T) {
	const all = "a b c d e f"
	for n := 1; n <= 6; n++ {
		for _, when := range []string{"before", "in the middle"} {
			inWorld(t, newFeed("a0 b0 c0 | d0 e0 f0"), func(t *testing.T, w *world) {
				ctx, stop := context.WithCancel(t.Context())
				applied := 0
				sink := &memorySink{t: t, apply: func(*feed.Entity) error {
					if applied++; applied != n {
						return nil
					}
					stop()
					if when == "before" {
						return nil
					}
					return ctx.Err()
				}}
				job := Job{Client: w.newClient(Config{}), URL: feedURL, Sink: sink, BatchEntities: 4}
				_, err := job.Run(ctx)
				if err != nil && !errors.Is(err, context.Canceled) && when == "before" {
					t.Error(err)
				}
				if got := strings.Join(sink.got, " "); !strings.HasPrefix(all, got) {
					t.Errorf("%s %d: sink has %q", when, n, got)
				}
				if when == "before" && len(sink.got) < n {
					t.Errorf("%d: sink has %q, whole entities were lost", n, sink.got)
				}
				if _, err := runJob(t, job); err != nil {
					t.Fatal(err)
				}
				sink.expect(all)
			})
		}
	}
}

// TestJobEndsBetween cancels the context when an entity has been read but not applied: the entities
// before it are committed.
func TestJobEndsBetween(t *testing.T) {
	inWorld(t, newFeed("a0"), func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		p := &Page{URL: pageURL + "1", entities: func(yield func(*Entity, error) bool) {
			yield(&Entity{Entity: entity("a", 0), Page: pageURL + "1"}, nil)
			stop()
			yield(&Entity{Entity: entity("b", 0), Page: pageURL + "1", Part: 1}, nil)
		}}
		sink := &memorySink{t: t}
		r, err := (&Job{Client: w.newClient(Config{}), URL: feedURL, Sink: sink}).newRun()
		if err != nil {
			t.Fatal(err)
		}
		r.s, _, err = r.Client.open(t.Context(), feedURL)
		if err != nil {
			t.Fatal(err)
		}
		defer r.s.close()
		err = r.drain(ctx, func(yield func(*Page, error) bool) { yield(p, nil) }, false)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		sink.expect("a")
	})
}

// TestJobFailures makes each Apply and each Commit fail once, and runs the job again.
func TestJobFailures(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for _, what := range []string{"apply", "commit"} {
			inWorld(t, newFeed("a0 b0 c0 | d0 e0 f0"), func(t *testing.T, w *world) {
				calls := 0
				fail := func() error {
					if calls++; calls == n {
						return io.ErrShortWrite
					}
					return nil
				}
				sink := &memorySink{t: t}
				if what == "apply" {
					sink.apply = func(*feed.Entity) error { return fail() }
				} else {
					sink.commit = fail
				}
				job := Job{Client: w.newClient(Config{}), Sink: sink, BatchEntities: 2}
				if _, err := runJob(t, job); err == nil && (what == "apply" || n <= 3) {
					t.Errorf("%s %d: no error", what, n)
				}
				if _, err := runJob(t, job); err != nil && (what == "apply" || n <= 3) {
					t.Error(err)
				}
				sink.expect("a b c d e f")
			})
		}
	}
}

// TestJobCommitsComplete: the entities read before a permanent error are committed.
func TestJobCommitsComplete(t *testing.T) {
	inWorld(t, newFeed("a1 b1 c0"), func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		_, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: sink})
		if !errors.Is(err, ErrTimeOrder) {
			t.Error(err)
		}
		sink.expect("a b")
	})
}

// TestJobBrokenStream: an entity whose stream fails while the sink reads it is rolled back and read
// again.
func TestJobBrokenStream(t *testing.T) {
	f := largeFeed()
	cuts := 3
	f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodGet || cuts == 0 {
			return false
		}
		cuts--
		f.serveBytes(rw, 1, 500_000)
		panic(http.ErrAbortHandler)
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		stats, err := runJob(t, Job{Client: w.newClient(Config{MaxWhole: 1000}), Sink: sink})
		if err != nil || stats.Restarts != 3 || stats.Entities != 3 {
			t.Errorf("%+v and error %v", stats, err)
		}
		sink.expect("a large b")
	})
	t.Run("often", func(t *testing.T) {
		f := newFeed("")
		for i := range 6 { // six pages with two breaks each
			f.addPage(fmt.Sprintf("%c0", 'a'+i))
			f.pages[i].entities[0].Body = make([]byte, 100_000)
		}
		cuts := make(map[int]int)
		f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
			if cuts[number]++; r.Method != http.MethodGet || cuts[number] > 3 {
				return false
			}
			f.serveBytes(rw, number, 50_000)
			panic(http.ErrAbortHandler)
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t}
			c := w.newClient(Config{MaxWhole: 1000, Retry: RetryConfig{Attempts: 4}})
			if stats, err := runJob(t, Job{Client: c, Sink: sink, BatchEntities: 1}); err != nil {
				t.Errorf("%+v and error %v", stats, err)
			}
			sink.expect("a b c d e f")
		})
	})
	t.Run("always", func(t *testing.T) {
		cuts = -1
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t}
			_, err := runJob(t, Job{Client: w.newClient(Config{MaxWhole: 1000, Retry: RetryConfig{Attempts: 3}}), Sink: sink})
			if !Retryable(err) {
				t.Error(err)
			}
			sink.expect("")
		})
	})
}

// TestKeyPointer takes keys from bodies.
func TestKeyPointer(t *testing.T) {
	f := newFeed("a0 b1 c2")
	bodies := []string{`{"id":"x/1","n":1}`, `{"n":2,"id":7}`, ""}
	for i, body := range bodies {
		f.pages[0].entities[i].Body = []byte(body)
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		c := w.newClient(Config{})
		if _, err := runJob(t, Job{Client: c, Sink: sink, KeyPointer: "/id"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"x%2F1", "7", "key-c"}, sink.keys); diff != "" {
			t.Error(diff)
		}
		f.append("d3")
		f.pages[0].entities[3].Body = []byte(`{"n":4}`)
		_, err := runJob(t, Job{Client: c, Sink: sink, KeyPointer: "/id"})
		if err == nil || !strings.Contains(err.Error(), pageURL+"1, part 3") {
			t.Errorf("error does not name the entity: %v", err)
		}
		sink.expect("a b c")
		if _, err := runJob(t, Job{Client: c, Sink: sink, KeyPointer: "id"}); err == nil {
			t.Error("bad pointer: no error")
		}
	})
	inWorld(t, largeFeed(), func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		_, err := runJob(t, Job{Client: w.newClient(Config{MaxWhole: 1000}), Sink: sink, KeyPointer: ""})
		if err != nil {
			t.Fatal(err)
		}
		sink.at, sink.got = feed.Position{LastModified: second(0), ContentID: "a", Page: pageURL + "1"}, nil
		_, err = runJob(t, Job{Client: w.newClient(Config{MaxWhole: 1000}), Sink: sink, KeyPointer: "/id"})
		if !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestProgress checks the reported progress of a job.
func TestProgress(t *testing.T) {
	s := newSnapshot(newFeed("a0 b1 | c2 d2 | e5"), 2, 1)
	inWorld(t, s, func(t *testing.T, w *world) {
		var got []string
		job := Job{Client: w.newClient(Config{}), Sink: &memorySink{t: t}, From: FromSnapshot(indexURL), BatchEntities: 1,
			Progress: func(p Progress) {
				page := strings.TrimPrefix(p.Page, "http://feed.test/")
				got = append(got, fmt.Sprintf("%d %s lag %v of %d pages", p.Entities, page, p.Lag, p.SnapshotPages))
			}}
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"1 snapshot/0 lag 0s of 2 pages", "2 snapshot/1 lag 0s of 2 pages", "2 snapshot/1 lag 3s of 2 pages",
			"3 feed/2 lag 3s of 0 pages", "4 feed/2 lag 3s of 0 pages", "5 feed/3 lag 0s of 0 pages",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAtLeastOnce(t *testing.T) {
	if AtLeastOnce(&memorySink{}) {
		t.Error("a sink without AtLeastOnce is at-least-once")
	}
	if !AtLeastOnce(forgetful{}) {
		t.Error("a sink whose AtLeastOnce returns true is not at-least-once")
	}
}

type forgetful struct{ Sink }

func (forgetful) AtLeastOnce() bool { return true }
