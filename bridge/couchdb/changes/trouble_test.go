package changes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// slow answers with a text, and then takes this long to break the connection.
func slow(body string, pause time.Duration) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		send(w, body)
		time.Sleep(pause)
		panic(http.ErrAbortHandler)
	}
}

// silent takes requests and says nothing to them.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestGivesUp: that a request takes long before it fails is no progress.
func TestGivesUp(t *testing.T) {
	for name, a := range map[string]answer{
		"no answer": silent, "no rows": hang(`{"results":[`), "cut after a while": slow(`{"results":[`, time.Minute/2),
		"cut while there are heartbeats": func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				send(w, "\n")
				time.Sleep(10 * time.Second)
			}
			panic(http.ErrAbortHandler)
		},
	} {
		for _, kind := range []changes.Feed{changes.Normal, changes.Continuous, changes.LongPoll} {
			if name == "cut while there are heartbeats" && kind != changes.Normal {
				continue // it is well for that long, with nothing to say
			}
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.otherwise = a
				f := follow(t, w.db, changes.Options{Feed: kind, Attempts: 3, MaxRetry: 10 * time.Second})
				_, err := next(t, f, time.Hour)
				if err == nil || !strings.Contains(err.Error(), "no progress in 3 attempts") {
					t.Errorf("%s, %v: %v after %d requests", name, kind, err, len(w.queries()))
				}
			})
		}
	}
}

// TestReserved: parameters that the follower sets, or that would lead it astray, are
// not for the filter.
func TestReserved(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for _, name := range []string{"feed", "since", "limit", "descending", "style", "heartbeat", "timeout", "filter", "last-event-id"} {
			_, err := changes.New(w.db, changes.Options{Filter: "app/mine", Query: map[string][]string{name: {"1"}}})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestFewSequences: a connection that breaks before each sequence gets on nevertheless.
func TestFewSequences(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.otherwise = func(rw http.ResponseWriter, r *http.Request) {
			at, names := 0, []string{}
			_, _ = fmt.Sscanf(r.URL.Query().Get("since"), "s%d", &at)
			interval := 0
			_, _ = fmt.Sscan(r.URL.Query().Get("seq_interval"), &interval)
			for i := at + 1; i <= min(20, at+5); i++ {
				name := fmt.Sprint(i)
				if interval > 0 && i%interval != 0 {
					name = "-" + name
				}
				names = append(names, name)
			}
			if at >= 15 {
				text(normal(strings.Join(names, " "), "s20"))(rw, r)
				return
			}
			cut(`{"results":[`+rows(strings.Join(names, " ")))(rw, r)
		}
		f := follow(t, w.db, changes.Options{SeqInterval: 10, Attempts: 3})
		got, err := read(t, f)
		if want := "1 2 3 4 5 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"; got != want || !errors.Is(err, io.EOF) {
			t.Errorf("%s, %v\n%q", got, err, w.queries())
		}
	})
}

// TestNonsenseAgain: each time that a row makes no sense it is asked for again, unless
// the one before made none either.
func TestNonsenseAgain(t *testing.T) {
	inWorld(t, []answer{
		beat(lines("a !b")), beat(lines("b c !d")), beat(lines("d e")), // both were broken on their way
	}, func(t *testing.T, w *world) {
		got, err := read(t, follow(t, w.db, changes.Options{Feed: changes.Continuous}))
		const c = "feed=continuous"
		if diff := cmp.Diff([]string{c, c + "&since=sa", c + "&since=sc"}, w.queries()); diff != "" || got != "a b c d e" || err != errNothing {
			t.Errorf("%q, %v\n%s", got, err, diff)
		}
	})
}

// TestNeverBetter: what only somebody else can mend is not tried again, by who waits for
// changes neither.
func TestNeverBetter(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer elsewhere.Close()
	for says, url := range map[string]string{
		"certificate signed by unknown authority": secure.URL,
		"HTTP response to HTTPS client":           strings.Replace(plain.URL, "http:", "https:", 1),
		"redirected to another origin":            elsewhere.URL,
	} {
		db, err := couchdb.Open(couchdb.Config{URL: url + "/db", Attempts: 2})
		if err != nil {
			t.Fatal(err)
		}
		f := follow(t, db, changes.Options{Feed: changes.Continuous, Attempts: 3})
		if _, err = f.Next(t.Context()); err == nil || !strings.Contains(err.Error(), says) || f.Stats().Requests != 1 {
			t.Errorf("%d requests, %v", f.Stats().Requests, err)
		}
	}
}

// TestHeartbeatsOnly: a server that has no rows for long is mentioned once.
func TestHeartbeatsOnly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		var log bytes.Buffer
		w.otherwise = beat(`{"results":[`)
		f := follow(t, w.db, changes.Options{Filter: "app/broken", Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := next(t, f, 5*time.Minute); err == nil {
			t.Error("there are rows")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "filter=app/broken"); n != 1 {
			t.Errorf("%d warnings: %s", n, &log)
		}
	})
}
