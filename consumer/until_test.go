package consumer

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// afterEpoch waits until all seconds in which the tests have entities are over.
func afterEpoch() { time.Sleep(time.Until(second(1000))) }

// TestUntil: a job ends after the last entity of a given second, or after a given entity, and another job
// continues from there.
func TestUntil(t *testing.T) {
	inWorld(t, newFeed("a0 b1 c1 | d1 e2 | f2 g5"), func(t *testing.T, w *world) {
		afterEpoch()
		for _, test := range []struct {
			until Until
			want  string
		}{
			{UntilTime(second(-1)), ""},
			{UntilTime(second(0)), "a"},
			{UntilTime(second(1)), "a b c d"},
			{UntilTime(second(1).Add(999 * time.Millisecond)), "a b c d"},
			{UntilTime(second(2)), "a b c d e f"},
			{UntilTime(second(4)), "a b c d e f"},
			{UntilTime(second(5)), "a b c d e f g"},
			{UntilTime(second(99)), "a b c d e f g"},
			{UntilContentID("a"), "a"},
			{UntilContentID("c"), "a b c"},
			{UntilContentID("d"), "a b c d"},
			{UntilContentID("g"), "a b c d e f g"},
		} {
			for _, batch := range []int{1, 2, 0} {
				sink := &memorySink{t: t}
				job := Job{Client: w.newClient(Config{}), Sink: sink, Until: test.until, BatchEntities: batch}
				for range 2 { // the second run finds that the end has been reached
					if _, err := runJob(t, job); err != nil {
						t.Errorf("until %s: %v", test.until, err)
					}
					sink.expect(test.want)
				}
				if last := test.want[max(0, len(test.want)-1):]; sink.at.ContentID != last {
					t.Errorf("until %s: the position is %+v", test.until, sink.at)
				}
				job.Until = Until{}
				if _, err := runJob(t, job); err != nil {
					t.Errorf("after %s: %v", test.until, err)
				}
				sink.expect("a b c d e f g")
			}
		}
	})
}

// TestUntilPassed: nothing is applied if the sink is past Until, or if the feed has no such entity.
func TestUntilPassed(t *testing.T) {
	f := newFeed("a0 b1 c1 | d1 e2 | f2 g5")
	inWorld(t, f, func(t *testing.T, w *world) {
		afterEpoch()
		sink := &memorySink{t: t}
		job := Job{Client: w.newClient(Config{}), Sink: sink, Until: UntilContentID("e")}
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		for _, until := range []Until{UntilTime(second(1)), UntilTime(second(0)), UntilContentID("d"), UntilContentID("a")} {
			job.Until = until
			_, err := runJob(t, job)
			if passed, ok := errors.AsType[*PassedError](err); !ok || passed.Until != until || passed.Position.ContentID != "e" {
				t.Errorf("until %s: %v", until, err)
			}
		}
		job.Until = UntilContentID("x")
		if _, err := runJob(t, job); !isUntilNotFound(err) {
			t.Errorf("after e: %v", err)
		}
		sink.expect("a b c d e")
		job.Sink = &memorySink{t: t, apply: nil}
		if _, err := runJob(t, job); !isUntilNotFound(err) {
			t.Errorf("from the beginning: %v", err)
		}
		job.Sink.(*memorySink).expect("")
	})
}

func isUntilNotFound(err error) bool {
	_, ok := errors.AsType[*UntilNotFoundError](err)
	return ok
}

// TestUntilRefused: jobs that cannot end at Until are refused.
func TestUntilRefused(t *testing.T) {
	inWorld(t, newFeed("a0"), func(t *testing.T, w *world) {
		time.Sleep(time.Until(second(10)))
		for name, change := range map[string]func(j *Job){
			"follow":       func(j *Job) { j.Client = w.newClient(Config{Follow: true}) },
			"newest first": func(j *Job) { j.NewestFirst, j.Sink = true, newRowSink(t) },
			"latest":       func(j *Job) { j.From = Latest() },
			"future":       func(j *Job) { j.Until = UntilTime(second(11)) },
			"this second":  func(j *Job) { j.Until = UntilTime(time.Now()) },
		} {
			sink := &memorySink{t: t}
			job := Job{Client: w.newClient(Config{}), Sink: sink, Until: UntilTime(second(5))}
			change(&job)
			_, err := runJob(t, job)
			if err == nil || errors.Is(err, ErrNotOver) != slices.Contains([]string{"future", "this second"}, name) {
				t.Errorf("%s: %v", name, err)
			}
			sink.expect("")
		}
		filling := newRowSink(t)
		filling.at = feed.Position{LastModified: second(0), ContentID: "a", Feed: feedURL, Tail: &feed.TailPosition{LastModified: second(0), ContentID: "a"}}
		if _, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: filling, Until: UntilTime(second(5))}); !errors.Is(err, errFilling) || len(filling.positions) > 0 {
			t.Errorf("a sink that is being filled: %v", err)
		}
		job := Job{Client: w.newClient(Config{}), Sink: &memorySink{t: t}, Until: UntilTime(second(9).Add(time.Second / 2))}
		if _, err := runJob(t, job); err != nil {
			t.Errorf("until the previous second: %v", err)
		}
	})
}

// TestUntilSnapshot: a job begins with the newest snapshot that is not past Until, if the server can find
// it, and never with a snapshot that is past Until.
func TestUntilSnapshot(t *testing.T) {
	f := newFeed("a0 b1 c1 | d1 e2 | f2 g5")
	s := newSnapshot(f, 2, 1)
	older := newSnapshot(f, 1, 1)
	older.id = "id-0"
	s.feed = &snapshot.FeedPosition{URL: feedURL, LastModified: second(2), ContentID: "e"}
	older.feed = &snapshot.FeedPosition{URL: feedURL, LastModified: second(1), ContentID: "c"}
	finds := true
	s.change = func(rw http.ResponseWriter, r *http.Request) bool {
		if at := r.URL.Query().Get("at"); at != "" && finds && at < second(2).Format(time.RFC3339) {
			older.serveIndex(rw)
			return true
		}
		return false
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		afterEpoch()
		for _, test := range []struct {
			until Until
			finds bool
			want  string // "" if the snapshot is past Until
		}{
			{UntilTime(second(2)), true, "key-0 key-1 f"},
			{UntilTime(second(2)), false, "key-0 key-1 f"},
			{UntilTime(second(1)), true, "key-0 d"},
			{UntilTime(second(1)), false, ""},
			{UntilTime(second(0)), true, ""},
			{UntilContentID("g"), true, "key-0 key-1 f g"},
			{UntilContentID("f"), true, "key-0 d e f"}, // the entity is of the same second as the newer snapshot
			{UntilContentID("f"), false, "key-0 key-1 f"},
			{UntilContentID("e"), false, "key-0 key-1"},
			{UntilContentID("d"), false, ""},
		} {
			finds = test.finds
			sink := &memorySink{t: t}
			job := Job{Client: w.newClient(Config{}), Sink: sink, From: FromSnapshot(indexURL), Until: test.until}
			_, err := runJob(t, job)
			passed, isPassed := errors.AsType[*PassedError](err)
			if (err == nil) != (test.want != "") || err != nil && (!isPassed || !strings.HasPrefix(passed.Snapshot, indexURL)) {
				t.Errorf("until %s, %v: %v", test.until, finds, err)
			}
			sink.expect(test.want)
		}
	})
}

// TestUntilSnapshotWithout: a snapshot without a position in the feed may already contain the entity of
// Until.
func TestUntilSnapshotWithout(t *testing.T) {
	s := newSnapshot(newFeed("a0 | d1 e2 | f2 g5"), 2, 1)
	s.parts[0][0].ContentID = "f"
	inWorld(t, s, func(t *testing.T, w *world) {
		afterEpoch()
		sink := &memorySink{t: t}
		if _, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: sink, From: FromSnapshot(indexURL), Until: UntilContentID("f")}); err != nil {
			t.Fatal(err)
		}
		sink.expect("f key-1 e f")
	})
}

// TestUntilSinkAway: if the last commit fails, it is made again.
func TestUntilSinkAway(t *testing.T) {
	inWorld(t, newFeed("a0 b1 c1 | d1 e2"), func(t *testing.T, w *world) {
		afterEpoch()
		commits := 0
		sink := &memorySink{t: t, commit: func() error {
			if commits++; commits == 1 {
				return ErrSinkUnavailable
			}
			return nil
		}}
		if _, err := runJob(t, Job{Client: w.newClient(Config{Retry: RetryConfig{Attempts: -1}}), Sink: sink, Until: UntilTime(second(1))}); err != nil {
			t.Fatal(err)
		}
		sink.expect("a b c d")
	})
}

// TestUntilQuery: nothing is added to the URL of an index if it has a query, which may contain a
// signature.
func TestUntilQuery(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 1, 1)
	inWorld(t, s, func(t *testing.T, w *world) {
		afterEpoch()
		job := Job{Client: w.newClient(Config{}), Sink: &memorySink{t: t}, From: FromSnapshot(indexURL + "?sig=1"), Until: UntilTime(second(2))}
		if _, err := runJob(t, job); err != nil {
			t.Error(err)
		}
		if requests := w.requests(); count(requests, "GET feed.test/snapshot?sig=1") != 1 || slices.ContainsFunc(requests, func(r string) bool { return strings.Contains(r, "at=") }) {
			t.Errorf("requests %q", requests)
		}
	})
}

// TestUntilDamaged: the rest of the page within which a job ends is read, so that no entity of a damaged
// page stays in the sink unnoticed.
func TestUntilDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		first, rest, _ := strings.Cut(damagedPage, "one")
		bad := first + "one" + strings.ReplaceAll(strings.Replace(rest, "two", "tow", 1), "03:10:00", "03:10:09")
		client, err := New(Config{MaxHeld: 1, ReadAhead: 64, Retry: RetryConfig{Attempts: 1}, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			header := reprDigest([]byte(damagedPage))
			header["Content-Type"], header["Link"] = []string{`multipart/mixed; boundary="b"`}, []string{`<http://feed.test/>; rel="self"`}
			header["Last-Modified"] = []string{"Mon, 27 Nov 2023 03:10:09 GMT"}
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(bad)), ContentLength: -1, Request: r}, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		sink := &memorySink{t: t}
		job := Job{Client: client, URL: "http://feed.test/", Sink: sink, Until: UntilTime(time.Date(2023, 11, 27, 3, 10, 5, 0, time.UTC))}
		if _, err := job.Run(t.Context()); !errors.Is(err, ErrDamaged) {
			t.Errorf("error %v", err)
		}
		sink.expect("")
	})
}
