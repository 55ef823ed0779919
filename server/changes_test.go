package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A remoteStore counts requests, and can be made unavailable.
type remoteStore struct {
	*farStore
	requests atomic.Int64
	away     atomic.Bool
}

func remote(latency time.Duration) *remoteStore {
	return &remoteStore{farStore: far(memory.New(), latency)}
}

func (s *remoteStore) request() error {
	s.requests.Add(1)
	if s.away.Load() {
		return storage.ErrUnavailable
	}
	return nil
}

func (s *remoteStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := s.request(); err != nil {
		return storage.Info{}, err
	}
	return s.farStore.Stat(ctx, key)
}

func (s *remoteStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := s.request(); err != nil {
		return nil, err
	}
	return s.farStore.Get(ctx, key, offset, length)
}

func (s *remoteStore) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	if err := s.request(); err != nil {
		return func(yield func(storage.Entry, error) bool) { yield(storage.Entry{}, err) }
	}
	return s.farStore.List(ctx, prefix, after)
}

// changes requests /changes, which must not fail.
func (s *site) changes(t *testing.T, since string, fields ...string) server.ChangedFeeds {
	t.Helper()
	got := s.get(t, "/changes?since="+since, fields...)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("GET /changes: %s %s", got.Status, got.body)
	}
	return changesIn(t, got)
}

func changesIn(t *testing.T, got answer) (list server.ChangedFeeds) {
	t.Helper()
	check(t, json.Unmarshal(got.body, &list))
	if list.Token == "" || list.Feeds == nil {
		t.Errorf("GET /changes: %s", got.body)
	}
	return list
}

// all requests /changes until there are no more changes.
func (s *site) all(t *testing.T) (names []string, token string) {
	t.Helper()
	for {
		list := s.changes(t, token, "Prefer: wait=20")
		for _, f := range list.Feeds {
			names = append(names, f.Name)
		}
		if token = list.Token; list.Complete {
			slices.Sort(names)
			return names, token
		}
	}
}

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: changed feeds are %v, want %v", what, got, want)
	}
}

func namesOf(list server.ChangedFeeds) (names []string) {
	for _, f := range list.Feeds {
		names = append(names, f.Name)
	}
	return names
}

// TestChanges: clients learn of changes by this server, and by others on the same store.
func TestChanges(t *testing.T) {
	for name, delay := range map[string]struct {
		store storage.Store
		most  time.Duration
	}{
		"the store notifies": {memory.New(), 200 * time.Millisecond},
		"it does not":        {struct{ storage.Store }{memory.New()}, 3 * time.Second},
		"it is far":          {far(memory.New(), 50*time.Millisecond), 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, delay.store, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
				here.post(t, "g", "<1>")
				names, token := here.all(t)
				wantNames(t, "at first", names, "f", "g")
				list := here.changes(t, token)
				wantNames(t, "without a change", namesOf(list))
				for _, publish := range []struct {
					where *site
					most  time.Duration
				}{{here, 2 * time.Second}, {there, delay.most}, {there, delay.most}} {
					w := here.wait(t, "/changes?since="+list.Token, "Prefer: wait=60")
					others := []*waiting{here.wait(t, "/changes?since="+list.Token+"&prefix=f", "Prefer: wait=60"), here.wait(t, "/changes?since="+list.Token+"&prefix=g", "Prefer: wait=60")}
					publish.where.post(t, "g", fmt.Sprint("<", time.Now().UnixNano(), ">"))
					<-w.done
					list = changesIn(t, w.answer)
					wantNames(t, "after a publish", namesOf(list), "g")
					if !list.Complete || w.took > publish.most || w.answer.Header.Get("Preference-Applied") != "wait=60" || w.answer.Header.Get("Cache-Control") != "no-store" {
						t.Errorf("after %v, want at most %v: %v %s", w.took, publish.most, w.answer.Header, w.answer.body)
					}
					<-others[0].done
					if others[0].took != time.Minute {
						t.Errorf("a client that waits for another feed got an answer after %v", others[0].took)
					}
					wantNames(t, "with another prefix", namesOf(changesIn(t, others[0].answer)))
					<-others[1].done
					wantNames(t, "with the prefix", namesOf(changesIn(t, others[1].answer)), "g")
				}
				there.post(t, "new", "<1>")
				time.Sleep(time.Minute)
				list = here.changes(t, list.Token)
				wantNames(t, "after a new feed", namesOf(list), "new")
			})
		})
	}
}

// TestChangesPages: a list has at most as many names as requested, and the next list continues after them.
func TestChangesPages(t *testing.T) {
	inBubble(t, memory.New(), server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
		for n := range 9 {
			here.post(t, fmt.Sprint("g", n), "<1>")
		}
		if names, _ := here.all(t); len(names) != 10 {
			t.Fatalf("changes of %v", names)
		}
		var names []string
		for token, complete := "", false; !complete; {
			list := changesIn(t, here.get(t, "/changes?limit=4&since="+token))
			if len(list.Feeds) > 4 || list.Complete != (len(names)+len(list.Feeds) == 10) {
				t.Fatalf("after %d: %v", len(names), list)
			}
			names = append(names, namesOf(list)...)
			if token == "" {
				here.post(t, "g0", "<2>") // listed again if it was in the first list
				here.get(t, "/feeds/g0")
				names = slices.DeleteFunc(names, func(name string) bool { return name == "g0" })
			}
			token, complete = list.Token, list.Complete
		}
		slices.Sort(names)
		if want := []string{"f", "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"}; !slices.Equal(slices.Compact(names), want) {
			t.Errorf("names: %v", names)
		}
	})
}

// TestChangesLost: tokens of another server, or from before a restart, are refused, and so are tokens after
// more than ten minutes without a request.
func TestChangesLost(t *testing.T) {
	inBubble(t, memory.New(), server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		_, token := here.all(t)
		_, other := there.all(t)
		epoch, _, _ := strings.Cut(token, "-")
		for _, bad := range []string{other, epoch, epoch + "-", epoch + "-99", epoch + "-01", epoch + "--1", "-1", "0", "x"} {
			got := here.get(t, "/changes?since="+bad, "Prefer: wait=20")
			if name, _ := got.problem(t); got.StatusCode != http.StatusGone || name != "changes-lost" {
				t.Errorf("since %q: %s %s", bad, got.Status, got.body)
			}
		}
		time.Sleep(9 * time.Minute)
		if list := here.changes(t, token); !list.Complete {
			t.Errorf("after 9 minutes: %v", list)
		}
		time.Sleep(11 * time.Minute)
		for range 2 {
			if got := here.get(t, "/changes?since="+token); got.StatusCode != http.StatusGone {
				t.Errorf("after 11 minutes: %s %s", got.Status, got.body)
			}
		}
		names, _ := here.all(t)
		wantNames(t, "after starting over", names, "f")
	})
}

// TestChangesVersions: the version of a feed changes only with its newest page, and another server
// returns the same version.
func TestChangesVersions(t *testing.T) {
	inBubble(t, memory.New(), server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		version := func(s *site) string {
			for token := ""; ; {
				list := s.changes(t, token, "Prefer: wait=5")
				for _, f := range list.Feeds {
					return f.Version
				}
				token = list.Token
			}
		}
		first := version(here)
		if got := version(there); got != first || first == "" {
			t.Errorf("the version is %q here and %q there", first, got)
		}
		here.post(t, "f", "<2>")
		time.Sleep(time.Second)
		if got := version(here); got == first || got != version(there) {
			t.Errorf("the version was %q, and is %q", first, got)
		}
	})
}

// TestChangesClients: one poll serves any number of clients, and there are few polls while nothing
// changes.
func TestChangesClients(t *testing.T) {
	store := remote(0)
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		for n := range 99 {
			there.post(t, fmt.Sprint("g", n), "<1>")
		}
		_, token := here.all(t)
		time.Sleep(time.Minute)
		store.requests.Store(0)
		var clients []*waiting
		for range 100 {
			clients = append(clients, here.wait(t, "/changes?since="+token, "Prefer: wait=60"))
		}
		time.Sleep(30 * time.Second)
		if requests := store.requests.Load(); requests > 30*60 {
			t.Errorf("%d requests to the store in 30 s, want at most 50 a second for polls", requests)
		}
		there.post(t, "g7", "<2>")
		for _, w := range clients {
			<-w.done
			wantNames(t, "client", namesOf(changesIn(t, w.answer)), "g7")
		}
	})
}

// TestChangesSlowStore: a store that is slow, or away for some time, delays changes, but loses none.
func TestChangesSlowStore(t *testing.T) {
	store := remote(2 * time.Second)
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, there *site) {
		for n := range 20 {
			there.post(t, fmt.Sprint("g", n), "<1>")
		}
		names, token := here.all(t)
		if len(names) != 21 {
			t.Errorf("changes of %v", names)
		}
		there.post(t, "g7", "<2>")
		for {
			list := here.changes(t, token, "Prefer: wait=60")
			if token = list.Token; len(list.Feeds) > 0 {
				wantNames(t, "after a publish", namesOf(list), "g7")
				break
			}
		}
	})
}

// TestChangesAway: while the store is unavailable, the response is 503, even for clients that wait.
func TestChangesAway(t *testing.T) {
	store := remote(0)
	inBubble(t, store, server.Config{}, func(t *testing.T, _ *server.Server, here, _ *site) {
		_, token := here.all(t)
		w := here.wait(t, "/changes?since="+token, "Prefer: wait=60")
		store.away.Store(true)
		<-w.done
		if name, _ := w.answer.problem(t); name != "store-away" {
			t.Errorf("while the store is away: %s", w.answer.body)
		}
		store.away.Store(false)
		time.Sleep(time.Minute)
		if list := here.changes(t, token); !list.Complete {
			t.Errorf("when the store is back: %v", list)
		}
	})
}

// TestChangesRequests: methods, credentials and parameters are checked as for other resources.
func TestChangesRequests(t *testing.T) {
	s := newServer(t, memory.New(), server.Config{ReadAuth: []server.Credential{{Bearer: "secret"}}})
	here := inside(t, s)
	for _, test := range []struct {
		method, query string
		fields        []string
		status        int
	}{
		{http.MethodGet, "", nil, 401},
		{http.MethodGet, "", []string{"Authorization: Bearer wrong"}, 401},
		{http.MethodGet, "", []string{"Authorization: Bearer secret"}, 200},
		{http.MethodHead, "", []string{"Authorization: Bearer secret"}, 200},
		{http.MethodPost, "", []string{"Authorization: Bearer secret"}, 405},
		{http.MethodGet, "?limit=0", []string{"Authorization: Bearer secret"}, 400},
		{http.MethodGet, "?limit=1001", []string{"Authorization: Bearer secret"}, 400},
		{http.MethodGet, "?prefix=..", []string{"Authorization: Bearer secret"}, 400},
		{http.MethodGet, "?prefix=a&limit=1000", []string{"Authorization: Bearer secret"}, 200},
	} {
		if got := here.do(t, test.method, "/changes"+test.query, "", test.fields...); got.StatusCode != test.status {
			t.Errorf("%s %s with %v: %s, want %d", test.method, test.query, test.fields, got.Status, test.status)
		}
	}
	unlisted := inside(t, newServer(t, memory.New(), server.Config{NoListing: true}))
	if name, _ := unlisted.get(t, "/changes").problem(t); name != "no-listing" {
		t.Errorf("a server that does not list its feeds: %s", name)
	}
	for name, m := range mounts {
		mounted := httptest.NewServer(m.mount(newServer(t, memory.New(), server.Config{})))
		client := &site{mounted.URL + m.prefix, mounted.Client()}
		if got := client.get(t, "/changes"); got.StatusCode != http.StatusOK {
			t.Errorf("mounted by %s: %s", name, got.Status)
		}
		mounted.Close()
	}
}

// TestChangesClose: closing the server ends the requests that wait.
func TestChangesClose(t *testing.T) {
	inBubble(t, memory.New(), server.Config{}, func(t *testing.T, s *server.Server, here, _ *site) {
		_, token := here.all(t)
		w := here.wait(t, "/changes?since="+token, "Prefer: wait=60")
		check(t, s.Close(context.Background()))
		w.check(t, http.StatusOK, 0, "wait=60")
		if name, _ := here.get(t, "/changes?since="+token).problem(t); name != "shutting-down" {
			t.Errorf("after closing: %s", name)
		}
		synctest.Wait()
	})
}

// FuzzChangesToken: no token makes the server fail, and only its own are accepted.
func FuzzChangesToken(f *testing.F) {
	for _, token := range []string{"", "-", "a-1", "a-9223372036854775807", "aaaaaaaaaaaaaaaaaaaa-0", "-9223372036854775809", "\x00-0", "é-1"} {
		f.Add(token)
	}
	s, err := server.New(memory.New(), server.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	get := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "/changes", nil)
		query := r.URL.Query()
		query.Set("since", token)
		r.URL.RawQuery = query.Encode()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	f.Fuzz(func(t *testing.T, token string) {
		get("") // so that there are tokens
		switch status := get(token); {
		case token == "" && status != http.StatusOK:
			t.Errorf("without a token: %d", status)
		case token != "" && status != http.StatusGone:
			t.Errorf("token %q: %d", token, status)
		}
	})
}
