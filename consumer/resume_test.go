package consumer

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

// TestStart reads feeds from positions of all kinds.
func TestStart(t *testing.T) {
	const three = "a0 b1 | c1 d2 | e2 f3"
	tests := []struct {
		name  string
		feed  string
		floor int
		start Start
		want  string
		lost  string // "id": ContentIDNotFoundError, "old": NotOldEnoughError
	}{
		{name: "beginning", feed: three, start: Beginning(), want: "a b c d e f"},
		{name: "beginning of a pruned feed", feed: three, floor: 2, start: Beginning(), want: "c d e f"},
		{name: "zero position is the beginning", feed: three, start: After(feed.Position{}), want: "a b c d e f"},
		{name: "latest", feed: three, start: Latest(), want: ""},

		{name: "since a time within a page", feed: three, start: Since(second(2)), want: "d e f"},
		{name: "since a second that two pages share", feed: three, start: Since(second(1)), want: "b c d e f"},
		{name: "since a fraction of a second", feed: three, start: Since(second(1).Add(999 * time.Millisecond)), want: "b c d e f"},
		{name: "since the first second", feed: three, start: Since(second(0)), want: "a b c d e f"},
		{name: "since before the feed", feed: three, start: Since(second(-1)), lost: "old"},
		{name: "since after the newest: nothing new yet", feed: three, start: Since(second(9)), want: ""},
		{name: "since after the only page", feed: "a0", start: Since(second(9)), want: ""},

		{name: "after, page known", feed: three, start: at("b1", 1), want: "c d e f"},
		{name: "after the last of a page, page known", feed: three, start: at("d2", 2), want: "e f"},
		{name: "after, page not known", feed: three, start: at("d2", 0), want: "e f"},
		{name: "after, wrong page known", feed: three, start: at("d2", 1), want: "e f"},
		{name: "after, page does not exist", feed: three, start: at("d2", 9), want: "e f"},
		{name: "after, page on another host", feed: three, want: "e f", start: After(feed.Position{
			LastModified: second(2), ContentID: "d", Page: "http://elsewhere.test/feed/2"})},
		{name: "after, time not known", feed: three, want: "d e f", start: After(feed.Position{ContentID: "c"})},
		{name: "after the last: nothing new yet", feed: three, start: at("f3", 3), want: ""},
		{name: "after the last, page not known", feed: three, start: at("f3", 0), want: ""},
		{name: "one page", feed: "a0 b1 c1", start: at("b1", 1), want: "c"},
		{name: "one page, page not known", feed: "a0 b1 c1", start: at("b1", 0), want: "c"},
		{name: "one page, first entity", feed: "a0 b1 c1", start: at("a0", 0), want: "b c"},
		{name: "one page, one second", feed: "a0 b0 c0", start: at("b0", 0), want: "c"},
		{name: "on the oldest page left", feed: three, floor: 2, start: at("c1", 0), want: "d e f"},
		{name: "all pages in one second", feed: "a1 b1 | c1 d1 | e1", start: at("c1", 0), want: "d e"},
		{name: "last of the page before the oldest left", feed: three, floor: 2, start: at("b1", 0), lost: "id"},

		{name: "gone, later entities exist", feed: three, start: at("x1", 1), lost: "id"},
		{name: "gone, nothing later exists", feed: three, start: at("x3", 3), lost: "id"},
		{name: "gone, all is older", feed: three, start: at("x9", 0), lost: "id"},
		{name: "gone, one page", feed: "a0 b1", start: at("x1", 1), lost: "id"},
		{name: "gone, one page, nothing later", feed: "a0", start: at("x0", 1), lost: "id"},
		{name: "gone, time not known", feed: three, start: After(feed.Position{ContentID: "x"}), lost: "id"},
		{name: "not old enough", feed: three, floor: 3, start: at("b1", 1), lost: "old"},
		{name: "not old enough, one page", feed: "d5 e6", start: at("b1", 1), lost: "old"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFeed(test.feed)
			f.floor = test.floor
			inWorld(t, f, func(t *testing.T, w *world) {
				got, err := ids(t, w.newClient(Config{}), test.start)
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if lost := kindOfGap(err); lost != test.lost {
					t.Errorf("error is %v, want kind %q", err, test.lost)
				}
				if test.lost == "" && err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func kindOfGap(err error) string {
	var id *ContentIDNotFoundError
	var old *NotOldEnoughError
	switch {
	case errors.As(err, &id):
		return "id"
	case errors.As(err, &old):
		return "old"
	}
	return ""
}

// TestGapErrors checks the fields of the errors for gaps.
func TestGapErrors(t *testing.T) {
	f := newFeed("a0 | b5 c6")
	f.floor = 2
	inWorld(t, f, func(t *testing.T, w *world) {
		start := at("a0", 1)
		_, err := ids(t, w.newClient(Config{}), start)
		var old *NotOldEnoughError
		if !errors.As(err, &old) || !IsGap(err) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&NotOldEnoughError{URL: feedURL, Position: start.position, Oldest: second(5)}, old); diff != "" {
			t.Error(diff)
		}
		start = at("x5", 2)
		_, err = ids(t, w.newClient(Config{}), start)
		var gone *ContentIDNotFoundError
		if !errors.As(err, &gone) || !IsGap(err) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&ContentIDNotFoundError{URL: feedURL, Position: start.position}, gone); diff != "" {
			t.Error(diff)
		}
	})
}

// TestResumeEverywhere resumes after each entity of feeds of all shapes, from positions with and without a
// page, and expects the rest.
func TestResumeEverywhere(t *testing.T) {
	for _, text := range []string{
		"a0", "a0 b0 c0", "a0 | b0 | c0", "a0 b1 | c1 d1 | e1 f2 | g2", "a0 b0 | c1 | d1 e1 f1 | g3 | h3",
	} {
		words := strings.Fields(strings.ReplaceAll(text, "|", " "))
		var all []string
		for _, word := range words {
			all = append(all, word[:1])
		}
		inWorld(t, newFeed(text), func(t *testing.T, w *world) {
			c := w.newClient(Config{})
			number := 1
			i := 0
			for word := range strings.FieldsSeq(text) {
				if word == "|" {
					number++
					continue
				}
				i++
				rest := strings.Join(all[i:], " ")
				want(t, c, at(word, 0), rest)
				want(t, c, at(word, number), rest)
			}
		})
	}
}

// TestRequests counts the requests that finding the start takes.
func TestRequests(t *testing.T) {
	inWorld(t, newFeed("a0 | b1 | c2 | d3 | e4"), func(t *testing.T, w *world) {
		c := w.newClient(Config{})
		for _, test := range []struct {
			name       string
			start      Start
			head, gets int
		}{
			{"beginning", Beginning(), 5, 5},
			{"page known", at("d3", 4), 0, 2},
			{"page not known", at("d3", 0), 3, 3},
			{"since", Since(second(3)), 3, 3},
			{"latest", Latest(), 0, 1},
		} {
			if _, err := ids(t, c, test.start); err != nil {
				t.Fatal(err)
			}
			log := w.requests()
			if head, gets := count(log, "HEAD"), count(log, "GET"); head != test.head || gets != test.gets {
				t.Errorf("%s: %d HEAD and %d GET, want %d and %d: %q", test.name, head, gets, test.head, test.gets, log)
			}
		}
	})
}

// TestLostIsFoundSoon: a missing entity is reported as soon as its time has passed.
func TestLostIsFoundSoon(t *testing.T) {
	inWorld(t, newFeed("a0 | b1 | c2 | d3 | e4 | f5 | g6"), func(t *testing.T, w *world) {
		if _, err := ids(t, w.newClient(Config{}), at("x1", 0)); kindOfGap(err) != "id" {
			t.Error(err)
		}
		if gets := count(w.requests(), "GET"); gets > 4 { // pages up to c2, and one page ahead
			t.Errorf("%d pages were requested", gets)
		}
	})
}

// TestEntryPointMoves: the page to which the entry point led is requested again by its own URL.
func TestEntryPointMoves(t *testing.T) {
	f := newFeed("a0 b0")
	cut := true
	f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if !cut {
			return false
		}
		cut = false
		f.serveBytes(rw, 1, pageSize(f, 1)-10)
		f.addPage("c1")
		panic(http.ErrAbortHandler)
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{}), Latest(), "c")
	})
}

// TestPrunedWhileReading removes pages while the feed is being read.
func TestPrunedWhileReading(t *testing.T) {
	t.Run("between crawl and walk", func(t *testing.T) {
		f := newFeed("a0 | b1 | c2 | d3")
		f.intercept = func(_ http.ResponseWriter, r *http.Request, number int) bool {
			if r.Method == http.MethodGet && number == 1 {
				f.floor = 3
			}
			return false
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			want(t, w.newClient(Config{}), Beginning(), "c d")
		})
	})
	t.Run("a prev link is stale", func(t *testing.T) {
		f := newFeed("a0 | b1 | c2 | d3")
		f.floor = 2
		f.links = func(number int, l *feed.Links) {
			if number == 2 {
				l.Prev = pageURL + "1"
			}
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			c := w.newClient(Config{})
			want(t, c, Beginning(), "b c d")
			want(t, c, at("b1", 1), "c d")
			if _, err := ids(t, c, at("a0", 1)); kindOfGap(err) != "old" {
				t.Errorf("error is %v", err)
			}
		})
	})
	t.Run("the next page is gone", func(t *testing.T) {
		f := newFeed("a0 | b1 | c2 | d3")
		f.intercept = func(_ http.ResponseWriter, _ *http.Request, number int) bool {
			if number == 2 {
				f.floor = 3
			}
			return false
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			got, err := ids(t, w.newClient(Config{}), at("a0", 1))
			if got != "" || kindOfGap(err) != "old" {
				t.Errorf("got %q and error %v", got, err)
			}
		})
	})
}

// TestNextIsMissing: a page that is missing for a while, although earlier ones exist, is not a gap.
func TestNextIsMissing(t *testing.T) {
	for _, test := range []struct {
		times int
		want  string
	}{{1, "a b c d e"}, {3, "a b c d e"}, {1000, "a b"}} {
		f := newFeed("a0 b1 | c1 d2 | e3")
		times := test.times
		f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
			if number != 2 || r.Method != http.MethodGet || times == 0 {
				return false
			}
			times--
			rw.WriteHeader(http.StatusNotFound)
			return true
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t}
			_, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: sink, OnGap: GapReplay})
			sink.expect(test.want)
			var status *StatusError
			if times == 0 && err != nil || times > 0 && (!errors.As(err, &status) || IsGap(err)) {
				t.Errorf("%d times: error is %v", test.times, err)
			}
			if n := len(w.requests()); n > 40 {
				t.Errorf("%d times: %d requests", test.times, n)
			}
		})
	}
}

// TestGoneWhileReading cuts a page and removes it before it is requested again.
func TestGoneWhileReading(t *testing.T) {
	for _, test := range []struct {
		number int
		at     string // where the page breaks
		want   string
		lost   string
	}{
		{1, "body of a", "c d e", ""}, // nothing was read
		{1, "body of b", "a c d e", "old"},
		{2, "body of c", "a b e", "old"},
		{2, "body of d", "a b c e", "old"},
	} {
		f := newFeed("a0 b1 | c2 d3 | e4")
		cut := false
		f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
			if number != test.number || r.Method != http.MethodGet || cut {
				return false
			}
			cut = true
			f.serveBytes(rw, number, strings.Index(string(f.body(f.pages[number-1])), test.at))
			f.prune(number + 1)
			panic(http.ErrAbortHandler)
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t}
			c := w.newClient(Config{})
			_, err := runJob(t, Job{Client: c, Sink: sink})
			if kindOfGap(err) != test.lost || err == nil {
				t.Errorf("%s: error is %v", test.at, err)
			}
			_, err = runJob(t, Job{Client: c, Sink: sink, OnGap: GapReplay})
			if err != nil {
				t.Error(err)
			}
			sink.expect(test.want)
		})
	}
}

// TestEmptyFeed: 204 means an empty feed, 404 that there is no feed.
func TestEmptyFeed(t *testing.T) {
	f := newFeed("")
	inWorld(t, f, func(t *testing.T, w *world) {
		c := w.newClient(Config{})
		for _, start := range []Start{Beginning(), Latest(), Since(second(0)), at("a0", 1)} {
			var status *StatusError
			if _, err := ids(t, c, start); !errors.As(err, &status) || status.StatusCode != http.StatusNotFound {
				t.Errorf("404: error is %v", err)
			}
		}
		f.empty = http.StatusNoContent
		want(t, c, Beginning(), "")
		want(t, c, Latest(), "")
		want(t, c, Since(second(0)), "")
		if _, err := ids(t, c, at("a0", 0)); kindOfGap(err) != "id" {
			t.Errorf("204 with a position: error is %v", err)
		}
	})
}
