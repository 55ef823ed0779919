package consumer

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRetention: the error for a gap contains what the server said about the page of the position.
func TestRetention(t *testing.T) {
	for problem, want := range map[string]Retention{
		`{"keepAgeSeconds":2592000,"snapshot":"http://feed.test/snapshots/f?sig=secret"}`: {720 * time.Hour, "http://feed.test/snapshots/f?sig=secret"},
		`{"keepAgeSeconds":5400}`:                {KeepAge: 90 * time.Minute},
		`{"keepAgeSeconds":-1}`:                  {},
		`{"keepAgeSeconds":9223372036854775807}`: {KeepAge: 9223372036 * time.Second},
		`{"title":"Gone"}`:                       {},
		`not JSON`:                               {},
	} {
		f := newFeed("a0 b1 | c2 d2 | e3")
		f.floor = 2
		gone := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/feed/1" {
				f.ServeHTTP(rw, r)
				return
			}
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(http.StatusGone)
			_, _ = rw.Write([]byte(problem))
		})
		inWorld(t, gone, func(t *testing.T, w *world) {
			_, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: &memorySink{t: t, at: at("b1", 1).position}})
			var old *NotOldEnoughError
			if !errors.As(err, &old) || old.Retention != want {
				t.Fatalf("%s: %v", problem, err)
			}
			if want.Snapshot != "" && !strings.HasSuffix(err.Error(), "; the feed keeps entities for 30 days; its newest snapshot is http://feed.test/snapshots/f?sig=xxxxx") {
				t.Error(err)
			}
			_, err = runJob(t, Job{Client: w.newClient(Config{}), Sink: &memorySink{t: t, at: at("x2", 1).position}})
			var lost *ContentIDNotFoundError
			if !errors.As(err, &lost) || lost.Retention != want {
				t.Errorf("%s: %v", problem, err)
			}
		})
	}
}
