package consumer

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

// announcements returns a function that returns what the requests for a feed have announced, without
// repetitions. The test fails if anything is announced to another origin.
func announcements(t *testing.T, f *testFeed) func() []string {
	var told []string
	f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		value := r.Header.Get(feed.ConsumerHeader)
		if r.Host != "feed.test" && value != "" {
			t.Errorf("%s %s%s announces %s", r.Method, r.Host, r.URL, value)
		}
		if r.Host == "feed.test" && (len(told) == 0 || told[len(told)-1] != value) {
			told = append(told, value)
		}
		return false
	}
	return func() []string { return told }
}

// TestAnnounce: a job announces the committed position, at its end too, and an iterator announces only the name.
func TestAnnounce(t *testing.T) {
	f := newFeed("a0 | b1 | c2")
	told := announcements(t, f)
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		job := Job{Client: w.newClient(Config{Announce: "stock"}), URL: feedURL, Sink: sink, BatchEntities: 1}
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		got := told()
		if got[0] != `name="stock"` || got[len(got)-1] != `name="stock", at=@1704067202, id="c", page="/feed/3"` {
			t.Errorf("announced %q", got)
		}
		w.requests()
		if _, err := runJob(t, job); err != nil {
			t.Fatal(err)
		}
		if n := count(w.requests(), "HEAD"); n > 0 {
			t.Errorf("a run that committed nothing announces the position again, with %d requests", n)
		}
	})
	f = newFeed("a0 | b1")
	told = announcements(t, f)
	inWorld(t, f, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{Announce: "stock"}), Beginning(), "a b")
		if diff := cmp.Diff([]string{`name="stock"`}, told()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAnnounceFollowing: each long-poll announces the position committed before it, and a request after a failed
// commit announces the position that the sink has.
func TestAnnounceFollowing(t *testing.T) {
	f := newFeed("a0")
	f.longPoll = true
	told := announcements(t, f)
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := &memorySink{t: t}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		job := Job{Client: w.newClient(Config{Follow: true, Announce: "stock"}), URL: feedURL, Sink: sink}
		go func() {
			_, err := job.Run(ctx)
			done <- err
		}()
		synctest.Wait()
		f.append("b1")
		synctest.Wait()
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{
			`name="stock"`, `name="stock", at=@1704067200, id="a", page="/feed/1"`, `name="stock", at=@1704067201, id="b", page="/feed/1"`,
		}, told()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAnnounceHome: nothing is announced to other origins, whether links or redirects lead there, and no server
// is told a position in another server's feed. Without a name, nothing is announced.
func TestAnnounceHome(t *testing.T) {
	for _, name := range []string{"stock", ""} {
		f := newFeed("a0 | b1 | c2")
		f.links = func(number int, l *feed.Links) {
			switch number {
			case 1:
				l.Next = "http://pages.test/feed/2"
			case 2:
				l.Self = "http://pages.test/feed/2"
			case 3:
				l.Prev = "http://pages.test/feed/2"
			}
		}
		told := announcements(t, f)
		serve := f.intercept
		f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
			serve(rw, r, number)
			if r.Host != "feed.test" || number != 1 {
				return false
			}
			rw.Header().Set("Location", "http://mirror.test/feed/1")
			rw.WriteHeader(http.StatusFound)
			return true
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			sink := &memorySink{t: t, at: feed.Position{Feed: "http://other.test/feed", LastModified: second(0), ContentID: "a", Page: "http://other.test/feed/1"}}
			job := Job{Client: w.newClient(Config{Announce: name, AllowOrigins: []string{"http://pages.test", "http://mirror.test"}}), URL: feedURL, Sink: sink}
			if _, err := runJob(t, job); err != nil {
				t.Fatal(err)
			}
			requests := strings.Join(w.requests(), "\n")
			if !strings.Contains(requests, "pages.test") || !strings.Contains(requests, "mirror.test") {
				t.Errorf("the job sent no requests to other origins:\n%s", requests)
			}
		})
		for i, value := range told() {
			if name == "" && value != "" || name != "" && i == 0 && value != `name="stock"` {
				t.Errorf("with name %q, %q is announced", name, value)
			}
		}
	}
}

// TestAnnounceConfig: invalid names are refused.
func TestAnnounceConfig(t *testing.T) {
	t.Parallel()
	for _, name := range []string{" a", "a\r\nX-Evil: 1", "é", strings.Repeat("n", 65)} {
		if _, err := New(Config{Announce: name}); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
}
