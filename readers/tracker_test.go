package readers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
)

// scripted returns a server whose response to a request is determined by the path, and by the header fields
// "X-Status" and "X-Next".
func scripted(modified time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", feed.FormatTime(modified))
		if strings.Count(r.URL.Path, "/") == 2 {
			w.Header().Set("Content-Location", "http://feeds.test"+r.URL.Path+"/pages/9")
		}
		if r.Header.Get("X-Next") != "" {
			w.Header().Add("Link", `<http://feeds.test/feeds/f/pages/2>; rel="next"`)
		}
		status := http.StatusOK
		if _, err := fmt.Sscan(r.Header.Get("X-Status"), &status); err == nil {
			w.WriteHeader(status)
		}
	})
}

// visitor sends requests to a tracker. Header fields are given as "Name: value".
type visitor struct{ h http.Handler }

func (v visitor) get(method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://feeds.test"+path, nil)
	r.RemoteAddr = "198.51.100.7:4711"
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	return w
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// announce returns the header field that a consumer sends after it has committed an entity, whose time is s
// seconds after the epoch.
func announce(name string, s, page int) string {
	a := feed.Announcement{Name: name, LastModified: epoch.Add(time.Duration(s) * time.Second), ContentID: fmt.Sprintf("<%d>", s), Page: fmt.Sprintf("/feeds/f/pages/%d", page)}
	return feed.ConsumerHeader + ": " + a.Header()
}

// TestVisits sends single requests, and checks what is known about the reader after each of them.
func TestVisits(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Hour)
	whole := Position{Page: 9, Time: epoch}
	for name, test := range map[string]struct {
		method, path string
		fields       []string
		want         *Reader // nil: no reader is known; ID, times, counts and Lag are not compared
	}{
		"a stranger": {"GET", "/feeds/f", []string{"User-Agent: curl/8"}, &Reader{Feed: "f", Agent: "curl/8", Network: "198.51.100.0/24", Asked: Asked{Kind: "feed"}, Position: whole}},
		"a condition": {"GET", "/feeds/f", []string{`If-None-Match: "e"`, "X-Status: 304"},
			&Reader{Feed: "f", Network: "198.51.100.0/24", Asked: Asked{Kind: "feed", Conditional: true}, Position: whole}},
		"a page":       {"GET", "/feeds/f/pages/3", []string{"X-Next: yes"}, &Reader{Feed: "f", Network: "198.51.100.0/24", Asked: Asked{Kind: "page", Page: 3}, Position: Position{Page: 3, Time: epoch}}},
		"HEAD":         {"HEAD", "/feeds/f/pages/3", nil, &Reader{Feed: "f", Network: "198.51.100.0/24", Asked: Asked{Kind: "page", Page: 3}}},
		"a snapshot":   {"GET", "/snapshots/f/i/pages/4", nil, &Reader{Feed: "f", Network: "198.51.100.0/24", Asked: Asked{Kind: "snapshot page", Page: 4}, Position: Position{InSnapshot: true, SnapshotPages: 5}}},
		"a user":       {"GET", "/feeds/f/at", []string{"Authorization: Basic a2ltOnMzY3JldA=="}, &Reader{Feed: "f", User: "kim", Network: "198.51.100.0/24", Asked: Asked{Kind: "timegate"}}},
		"a token":      {"GET", "/feeds/f/at", []string{"Authorization: Bearer s3cret"}, &Reader{Feed: "f", User: "bearer", Network: "198.51.100.0/24", Asked: Asked{Kind: "timegate"}}},
		"a consumer":   {"GET", "/feeds/f/pages/3", []string{announce("stock", -5, 2), "User-Agent: feedctl"}, &Reader{Feed: "f", Name: "stock", Agent: "feedctl", Network: "198.51.100.0/24", Asked: Asked{Kind: "page", Page: 3}, Position: Position{Announced: true, Page: 2, Time: epoch.Add(-5 * time.Second), ContentID: "<-5>"}}},
		"a new one":    {"HEAD", "/feeds/f", []string{feed.ConsumerHeader + `: name="stock"`}, &Reader{Feed: "f", Name: "stock", Network: "198.51.100.0/24", Asked: Asked{Kind: "feed"}}},
		"another feed": {"HEAD", "/feeds/f", []string{feed.ConsumerHeader + `: name="stock", at=@1, page="/feeds/other/pages/2"`}, &Reader{Feed: "f", Name: "stock", Network: "198.51.100.0/24", Asked: Asked{Kind: "feed"}, Position: Position{Announced: true, Time: time.Unix(1, 0).UTC()}}},
		"a broken field": {"HEAD", "/feeds/f", []string{feed.ConsumerHeader + ": name=stock\x00", "User-Agent: \x1b[31m<script>\xff"},
			&Reader{Feed: "f", Agent: "?[31m<script>?", Network: "198.51.100.0/24", Asked: Asked{Kind: "feed"}}},
		"pruned": {"GET", "/feeds/f/pages/1", []string{"X-Status: 410"},
			&Reader{Feed: "f", Network: "198.51.100.0/24", Asked: Asked{Kind: "page", Page: 1}, Failed: Failure{Status: 410, Asked: Asked{Kind: "page", Page: 1}, At: now}}},
		"refused":   {"GET", "/feeds/f", []string{"X-Status: 401", announce("stock", 1, 1)}, nil},
		"missing":   {"GET", "/feeds/f", []string{"X-Status: 404"}, nil},
		"a publish": {"POST", "/feeds/f", nil, nil},
		"no feed":   {"GET", "/metrics", nil, nil},
		"bad name":  {"GET", "/feeds/..%2f", nil, nil},
	} {
		tracker := New(Config{Users: true, Now: func() time.Time { return now }})
		visitor{tracker.Handler(scripted(epoch))}.get(test.method, test.path, test.fields...)
		all, _ := tracker.List()
		if test.want == nil {
			if len(all) > 0 {
				t.Errorf("%s: the tracker has %+v, want no reader", name, all[0])
			}
			continue
		}
		if len(all) != 1 {
			t.Errorf("%s: the tracker has %d readers, want 1", name, len(all))
			continue
		}
		got := all[0]
		if got.ID == "" || got.Requests != 1 || got.First != now || got.Seen != now {
			t.Errorf("%s: %+v", name, got)
		}
		got.ID, got.Requests, got.Failures, got.First, got.Seen, got.Lag = "", 0, 0, time.Time{}, time.Time{}, Lag{}
		if diff := cmp.Diff(*test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestUsersUnchecked: if the server does not check credentials, the user names in them are not used.
func TestUsersUnchecked(t *testing.T) {
	t.Parallel()
	tracker := New(Config{})
	visitor{tracker.Handler(scripted(epoch))}.get("GET", "/feeds/f", "Authorization: Basic a2ltOnMzY3JldA==")
	if all := tracker.Of("f"); len(all) != 1 || all[0].User != "" {
		t.Errorf("%+v", all)
	}
}

// TestImpostor: a request without the right password does not change what is known about a reader, either when
// the request begins or when it ends.
func TestImpostor(t *testing.T) {
	t.Parallel()
	tracker := New(Config{Users: true})
	var during Reader
	h := tracker.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if all := tracker.Of("f"); len(all) > 0 {
			during = all[0]
		}
		if _, password, _ := r.BasicAuth(); password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	request := func(password string, fields ...string) {
		r := httptest.NewRequest("GET", "/feeds/f", nil)
		r.SetBasicAuth("kim", password)
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			r.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	request("s3cret", announce("stock", 1, 1))
	request("wrong", announce("stock", 99, 9), `If-None-Match: "e"`, "Prefer: wait=30")
	if got := tracker.Of("f"); len(got) != 1 || got[0].Position.ContentID != "<1>" || got[0].Failures != 0 || got[0].Requests != 1 {
		t.Errorf("after the request, the reader is %+v", got)
	}
	if during.Waiting != 0 || during.Position.ContentID != "<1>" {
		t.Errorf("during the request, the reader is %+v", during)
	}
}

// TestUnchanged: responses are the same as without the tracker, and a handler can still use an
// http.ResponseController.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte("body"))
	})
	got := visitor{New(Config{}).Handler(answer)}.get("GET", "/feeds/f", announce("stock", 1, 1))
	if got.Body.String() != "body" || len(got.Header()) > 0 || !got.Flushed {
		t.Errorf("%+v", got)
	}
}

// TestLag computes the lag of positions behind newest pages.
func TestLag(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	for name, test := range map[string]struct {
		h    head
		p    Position
		want Lag
	}{
		"nothing":      {head{}, Position{}, Lag{}},
		"no head":      {head{}, Position{Time: at(0)}, Lag{}},
		"no position":  {head{page: 2, time: at(9)}, Position{}, Lag{}},
		"in snapshot":  {head{page: 2, time: at(9)}, Position{InSnapshot: true, Time: at(1)}, Lag{}},
		"newest first": {head{page: 2, time: at(9)}, Position{Filling: true, Time: at(9)}, Lag{}},
		"behind":       {head{page: 7, time: at(9)}, Position{Page: 2, Time: at(1)}, Lag{Known: true, Time: 8 * time.Second, Pages: 5}},
		"without page": {head{page: 7, time: at(9)}, Position{Time: at(1)}, Lag{Known: true, Time: 8 * time.Second}},
		"caught up":    {head{page: 7, time: at(9), contentID: "a"}, Position{Page: 6, Time: at(9), ContentID: "a"}, Lag{Known: true}},
		"ahead":        {head{page: 7, time: at(9)}, Position{Page: 8, Time: at(10)}, Lag{Known: true}},
	} {
		if got := test.h.lag(test.p); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestTrend: a lag is compared with the lag five minutes ago, and remembered for a day.
func TestTrend(t *testing.T) {
	t.Parallel()
	seconds := func(n int) Lag { return Lag{Known: true, Time: time.Duration(n) * time.Second} }
	var h history
	if got := h.trend(time.Hour); got != Steady {
		t.Errorf("without history, the trend is %d", got)
	}
	for n := range 100 {
		h.add(seconds(1000 + n))
	}
	for now, want := range map[int]Trend{1000: Steady, 1070: Steady, 1170: Steady, 1190: Growing, 980: Steady, 900: Shrinking, 0: Shrinking} {
		if got := h.trend(time.Duration(now) * time.Second); got != want {
			t.Errorf("from 1070 s to %d s, the trend is %d, want %d", now, got, want)
		}
	}
	h.add(Lag{})
	for n := range 10_000 {
		h.add(seconds(n))
	}
	got := h.copy()
	if len(got.Hour) != 360 || got.Hour[0] != 9640 || got.Hour[359] != 9999 {
		t.Errorf("the last hour has %d values, from %d to %d", len(got.Hour), got.Hour[0], got.Hour[len(got.Hour)-1])
	}
	if last := got.Day[len(got.Day)-1]; len(got.Day) != 288 || last < 9960 || last > 9999 {
		t.Errorf("the last day has %d values, the last one %d", len(got.Day), last)
	}
}

// TestBounded: there are never more readers than Max, strangers do not displace readers that announce a name,
// and nothing is left of a reader that is forgotten.
func TestBounded(t *testing.T) {
	t.Parallel()
	tracker := New(Config{Max: 8})
	v := visitor{tracker.Handler(scripted(epoch))}
	v.get("GET", "/feeds/first", feed.ConsumerHeader+`: name="first"`)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		path := fmt.Sprintf("/feeds/f%d", random.IntN(40))
		if random.IntN(4) == 0 && n < 1000 {
			v.get("GET", path, feed.ConsumerHeader+`: name="first"`)
			v.get("GET", "/feeds/first", feed.ConsumerHeader+`: name="first"`)
		}
		v.get("GET", path, fmt.Sprintf("User-Agent: agent %d", n))
		all, forgotten := tracker.List()
		strangers, inFeeds := 0, 0
		for _, r := range all {
			if r.Name == "" {
				strangers++
			}
			if _, _, ok := tracker.Reader(r.ID); !ok {
				t.Fatalf("reader %+v is not found", r)
			}
		}
		for _, readers := range tracker.Feeds() {
			inFeeds += readers
		}
		if len(all) > 8 || strangers > 2 || inFeeds != len(all) || len(tracker.byID) != len(all) || len(tracker.byKey) != len(all) {
			t.Fatalf("%d readers, %d strangers; feeds have %d, IDs %d, keys %d", len(all), strangers, inFeeds, len(tracker.byID), len(tracker.byKey))
		}
		if n > 100 && forgotten == 0 {
			t.Fatal("no reader is counted as forgotten")
		}
	}
	if got := tracker.Summary("first"); got.Readers != 1 {
		t.Errorf("the reader that was seen often is forgotten: %+v", got)
	}
}

// TestRun: the lag of a reader keeps growing after the reader has stopped, since Run gets the newest page of
// its feed, but at most once a minute.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		tracker := New(Config{})
		newest := func(_ context.Context, name string) (*chain.Page, error) {
			asked[name]++
			if name == "broken" {
				return nil, errors.New("the store is away")
			}
			return &chain.Page{Number: 20, Last: epoch.Add(time.Duration(asked[name]) * time.Minute)}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); tracker.Run(ctx, newest) }()
		v := visitor{tracker.Handler(scripted(epoch))}
		v.get("GET", "/feeds/f", announce("stock", 0, 9))
		v.get("GET", "/feeds/broken", announce("stock", 0, 9))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if asked["f"] < 5 || asked["f"] > 10 || asked["broken"] > 10 {
			t.Errorf("in 10 minutes, newest pages were requested for: %v", asked)
		}
		got := tracker.Summary("f")
		if want := (Summary{Readers: 1, Known: true, Lag: time.Duration(asked["f"]) * time.Minute, Trend: Growing}); got != want {
			t.Errorf("summary is %+v, want %+v", got, want)
		}
		before := asked["f"]
		for range 60 {
			v.get("GET", "/feeds/f", announce("other", 0, 9))
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if asked["f"] != before {
			t.Error("the newest page of a feed was requested although a reader requests it")
		}
		_, history, _ := tracker.Reader(tracker.Of("f")[0].ID)
		if len(history.Hour) < 59 || len(history.Day) < 1 {
			t.Errorf("history is %+v", history)
		}
		stop()
		<-done
	})
}

// TestWaiting: while the server holds a request, its reader is reported as waiting, and the reader's position
// is the one in that request.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		tracker := New(Config{})
		h := tracker.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Prefer") != "" {
				<-release
			}
			scripted(epoch).ServeHTTP(w, r)
		}))
		v := visitor{h}
		v.get("GET", "/feeds/f", announce("stock", 1, 9))
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.get("GET", "/feeds/f", announce("stock", 7, 9), `If-None-Match: "e"`, "Prefer: wait=30")
		}()
		synctest.Wait()
		if got := tracker.Of("f")[0]; got.Waiting != 1 || got.Position.ContentID != "<7>" || got.Requests != 1 {
			t.Errorf("%+v", got)
		}
		close(release)
		<-done
		if got := tracker.Of("f")[0]; got.Waiting != 0 || got.Requests != 2 {
			t.Errorf("%+v", got)
		}

		var ended context.CancelFunc
		whole := tracker.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", r.Header.Get("X-Length"))
			_, _ = w.Write([]byte("body"))
			ended() // the reader disconnects
		}))
		for agent, length := range map[string]string{"all": "4", "a part": "5"} {
			ctx, end := context.WithCancel(t.Context())
			ended = end
			r := httptest.NewRequestWithContext(ctx, "GET", "/feeds/whole", nil)
			r.Header.Set("X-Length", length)
			r.Header.Set("User-Agent", agent)
			whole.ServeHTTP(httptest.NewRecorder(), r)
			end()
		}
		if got := tracker.Of("whole"); len(got) != 1 || got[0].Agent != "all" {
			t.Errorf("after one reader received a whole response and another only a part, the readers are %+v", got)
		}

		cutOff := tracker.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/feeds/cut/pages/7")
			w.Header().Set("Last-Modified", feed.FormatTime(time.Now()))
			_, _ = w.Write([]byte("a part"))
			panic(http.ErrAbortHandler)
		}))
		func() {
			defer func() { _ = recover() }()
			cutOff.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/feeds/cut", nil))
		}()
		if got := tracker.Of("cut"); len(got) > 0 {
			t.Errorf("after a response was cut off, the readers are %+v", got)
		}

		ctx, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(ctx, "GET", "/feeds/f", nil)
		for name, value := range map[string]string{"X-Status": "503", "If-None-Match": "e", "Prefer": "wait=30"} {
			r.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := len(tracker.Of("f")); got != 1 {
			t.Errorf("after a stranger has left, there are %d readers", got)
		}
		name, value, _ := strings.Cut(announce("stock", 7, 9), ": ")
		r.Header.Set(name, value)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := tracker.Of("f")[0]; got.Waiting != 0 || got.Failures != 0 {
			t.Errorf("after a reader has left while waiting: %+v", got)
		}
	})
}
