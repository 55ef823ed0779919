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

// slow returns an answer that sends a string, and cuts the connection after a delay.
func slow(body string, pause time.Duration) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		send(w, body)
		time.Sleep(pause)
		panic(http.ErrAbortHandler)
	}
}

// silent never responds.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestFails: a connection that fails without a row is an error, however long it lasted.
func TestFails(t *testing.T) {
	for name, a := range map[string]answer{
		"no answer": silent, "no rows": hang(`{"results":[`), "cut after a while": slow(`{"results":[`, time.Minute/2),
		"not JSON": text("<html>"), "truncated": text(`{"results":[`), "error": text(`{"error":"timeout","reason":"the shard is gone"}`),
		"error after rows": text(`{"results":[],"error":"timeout","reason":"the shard is gone"}`),
	} {
		for _, kind := range []changes.Feed{changes.Normal, changes.Continuous, changes.LongPoll} {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.otherwise = a
				f, err := changes.New(w.db, changes.Options{Feed: kind})
				if err != nil {
					t.Fatal(err)
				}
				err = f.Follow(t.Context(), func(b *changes.Batch) error {
					t.Errorf("got %+v", b)
					return nil
				})
				if err == nil || couchdb.Permanent(err) || strings.HasPrefix(name, "error") && kind != changes.Continuous && !strings.Contains(err.Error(), "timeout: the shard is gone") {
					t.Errorf("%s, %v: %v", name, kind, err)
				}
			})
		}
	}
}

// TestHandlerFails: an error of the handler ends Follow, which can be called again.
func TestHandlerFails(t *testing.T) {
	for _, o := range []changes.Options{{BatchRows: 1}, {Feed: changes.Continuous}, {Feed: changes.LongPoll}} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.otherwise = text(normal("a b", "sb"))
			if o.Feed == changes.Continuous {
				w.otherwise = beat(lines("a b"))
			}
			f, err := changes.New(w.db, o)
			if err != nil {
				t.Fatal(err)
			}
			failure := errors.New("no")
			for n := range 2 {
				if err := f.Follow(t.Context(), func(*changes.Batch) error { return failure }); !errors.Is(err, failure) || len(w.queries()) != n+1 {
					t.Errorf("%+v: %v, %q", o, err, w.queries())
				}
			}
		})
	}
}

// TestReserved: parameters that the follower sets, or that would break it, are refused.
func TestReserved(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for _, name := range []string{"feed", "since", "limit", "descending", "style", "heartbeat", "timeout", "filter", "last-event-id"} {
			_, err := changes.New(w.db, changes.Options{Filter: changes.Filter{Name: "app/mine", Query: map[string][]string{name: {"1"}}}})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestFewSequences: the follower makes progress although each connection breaks before its first
// sequence.
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
		f := follow(t, w.db, changes.Options{SeqInterval: 10})
		got, err := read(t, f)
		if want := "1 2 3 4 5 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"; got != want || !errors.Is(err, io.EOF) {
			t.Errorf("%s, %v\n%q", got, err, w.queries())
		}
	})
}

// TestMalformedAgain: each malformed row is requested again, unless the previous one is malformed, too.
func TestMalformedAgain(t *testing.T) {
	inWorld(t, []answer{
		beat(lines("a !b")), beat(lines("b c !d")), beat(lines("d e")), // both were damaged in transit
	}, func(t *testing.T, w *world) {
		got, err := read(t, follow(t, w.db, changes.Options{Feed: changes.Continuous}))
		const c = "feed=continuous"
		if diff := cmp.Diff([]string{c, c + "&since=sa", c + "&since=sc"}, w.queries()); diff != "" || got != "a b c d e" || err != errNothing {
			t.Errorf("%q, %v\n%s", got, err, diff)
		}
	})
}

// TestPermanent: permanent errors are not retried, not even in a live feed.
func TestPermanent(t *testing.T) {
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
		f := follow(t, db, changes.Options{Feed: changes.Continuous})
		if _, err = f.Next(t.Context()); err == nil || !strings.Contains(err.Error(), says) || f.Stats().Requests != 1 {
			t.Errorf("%d requests, %v", f.Stats().Requests, err)
		}
	}
}

// TestHeartbeatsOnly: if a server sends no rows for a long time, that is logged once.
func TestHeartbeatsOnly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		var log bytes.Buffer
		w.otherwise = beat(`{"results":[`)
		f := follow(t, w.db, changes.Options{Filter: changes.Filter{Name: "app/broken"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := next(t, f, 5*time.Minute); err == nil {
			t.Error("there are rows")
		}
		if n := strings.Count(log.String(), "filter=app/broken"); n != 1 {
			t.Errorf("%d warnings: %s", n, &log)
		}
	})
}
