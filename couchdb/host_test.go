package couchdb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/memnet"
)

func openHost(t *testing.T, c couchdb.Config) *couchdb.Host {
	t.Helper()
	c.Attempts = 2
	h, err := couchdb.OpenHost(c)
	must(t, err)
	return h
}

// TestInfos: many databases are described by few requests, and databases that do not exist are left out.
func TestInfos(t *testing.T) {
	fake := couchtest.NewFake(t)
	var names []string
	want := map[string]bool{}
	for n := range 250 {
		name := fmt.Sprintf("d%03d", n)
		names = append(names, name)
		if n%10 > 0 {
			fake.Create(name)
			want[name] = true
		}
	}
	h := openHost(t, couchdb.Config{URL: fake.URL() + "/"})
	for limit, requests := range map[int]int{100: 3, 1000: 3, 60: 6, 1: 250 + 6} {
		fake.MaxInfos = limit
		fake.Requests()
		infos, err := h.Infos(t.Context(), names)
		must(t, err)
		if len(infos) != len(want) {
			t.Errorf("%d databases, want %d", len(infos), len(want))
		}
		for name, info := range infos {
			if !want[name] || info.Name != name || len(info.UpdateSeq) == 0 || info.Instance() == "" {
				t.Errorf("%s: %+v", name, info)
			}
		}
		if n := len(fake.Requests()); n != requests {
			t.Errorf("limit of %d: %d requests, want %d", limit, n, requests)
		}
	}
}

// TestHostOnServers: on a server that does not support the requests, the errors match ErrUnsupported; on others, Infos
// describes databases.
func TestHostOnServers(t *testing.T) {
	eachServer(t, func(t *testing.T, db *couchdb.DB, pouch bool) {
		h := openHost(t, couchdb.Config{URL: strings.TrimSuffix(db.URL(), "/"+db.Name())})
		before, err := h.DB(db.Name()).Info(t.Context())
		must(t, err)
		infos, err := h.Infos(t.Context(), []string{db.Name(), "missing"})
		if pouch {
			if !errors.Is(err, couchdb.ErrUnsupported) {
				t.Error(err)
			}
			if _, err := h.LastUpdate(t.Context()); !errors.Is(err, couchdb.ErrUnsupported) {
				t.Error(err)
			}
			return
		}
		must(t, err)
		if i := infos[db.Name()]; len(infos) != 1 || string(i.UpdateSeq) != string(before.UpdateSeq) || i.Instance() != before.Instance() {
			t.Errorf("%+v, want %+v", infos, before)
		}
		store(t, db, `{"_id":"a","_rev":"1-a"}`)
		infos, err = h.Infos(t.Context(), []string{db.Name()})
		if i := infos[db.Name()]; err != nil || string(i.UpdateSeq) == string(before.UpdateSeq) || i.Instance() != before.Instance() {
			t.Errorf("%+v, want another sequence than %+v, %v", infos, before, err)
		}
	})
}

// TestHostRefused: LastUpdate fails without the database _global_changes, users have to be admins, and invalid URLs are
// refused.
func TestHostRefused(t *testing.T) {
	fake := couchtest.NewFake(t)
	h := openHost(t, couchdb.Config{URL: fake.URL()})
	if _, err := h.LastUpdate(t.Context()); !errors.Is(err, couchdb.ErrUnsupported) {
		t.Error(err)
	}
	fake.NoAdmin = true
	if _, err := h.LastUpdate(t.Context()); !errors.Is(err, couchdb.ErrUnauthorized) {
		t.Error(err)
	}
	if _, err := h.Infos(t.Context(), []string{"a"}); !errors.Is(err, couchdb.ErrUnauthorized) {
		t.Error(err)
	}
	for _, url := range []string{"couch.example.com", "ftp://a", "http://a?b", "http://user:secret@a#b", "http://[secret"} {
		if _, err := couchdb.OpenHost(couchdb.Config{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestUpdates: all updates after a position are reported, even if responses break off at any point.
func TestUpdates(t *testing.T) {
	fake := couchtest.NewFake(t)
	fake.GlobalChanges()
	h := openHost(t, couchdb.Config{URL: fake.URL()})
	since, err := h.LastUpdate(t.Context())
	must(t, err)
	enough := errors.New("enough")
	read := func(want int) (got []string) {
		t.Helper()
		position, err := h.Updates(t.Context(), since, func(some []couchdb.Update) error {
			for _, u := range some {
				got = append(got, u.Type+" "+u.Name)
			}
			since = some[len(some)-1].Seq
			if len(got) >= want {
				return enough
			}
			return nil
		})
		if err != nil && err != enough && !couchdb.Retryable(err) || err == nil && string(position) == "" {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	fake.Create("a")
	fake.AddDoc("a", "x", "{}")
	fake.AddDoc("a", "y", "{}")
	if diff := cmp.Diff([]string{"created a", "updated a"}, read(2)); diff != "" {
		t.Error(diff)
	}
	fake.Delete("a")
	fake.Create("b")
	for n := range 40 { // the responses break off after more and more bytes
		fake.Inject(1, couchtest.On("GET", "_db_updates"), couchtest.Cut(10*n))
	}
	var all []string
	for len(all) < 2 {
		all = append(all, read(2-len(all))...)
	}
	slices.Sort(all)
	if diff := cmp.Diff([]string{"created b", "deleted a"}, all); diff != "" {
		t.Error(diff)
	}
}

// TestUpdatesEnd: Updates returns the last position of a response, heartbeats keep the response open, and a line that
// is not an update is an error.
func TestUpdatesEnd(t *testing.T) {
	const a, b = `{"db_name":"a","type":"updated","seq":"1-a"}` + "\n", `{"db_name":"b","type":"updated","seq":"2-b"}` + "\n"
	long := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		body      []string // parts, sent with a minute in between
		position  string
		malformed bool
		names     string
	}{
		{[]string{""}, `"0"`, false, ""},
		{[]string{a + b}, `"2-b"`, false, "a b"},
		{[]string{a, "\n", b}, `"2-b"`, false, "a b"},
		{[]string{"\n" + a[:20], a[20:] + b[:5]}, `"1-a"`, false, "a"},
		{[]string{a, `{"last_seq":"9-z"}` + "\n"}, `"9-z"`, false, "a"},
		{[]string{`{"db_name":"c","type":"updated","seq":"` + long + "\"}\n"}, `"` + long + `"`, false, "c"},
		{[]string{a, `{"error":"timeout"}` + "\n"}, `"1-a"`, true, "a"},
		{[]string{a + `{"db_name":"b"` + "\n"}, `"1-a"`, true, "a"},
		{[]string{`{"db_name":"b"}` + "\n"}, `"0"`, true, ""},
		{[]string{strings.Repeat(long, 12)}, `"0"`, true, ""},
	} {
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			for n, part := range test.body {
				if n > 0 {
					time.Sleep(50 * time.Second)
				}
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		}, func(t *testing.T, n *memnet.Net) {
			var names []string
			position, err := openHost(t, couchdb.Config{URL: "http://couch.test", HTTP: n.Client()}).
				Updates(t.Context(), json.RawMessage(`"0"`), func(some []couchdb.Update) error {
					for _, u := range some {
						names = append(names, u.Name)
					}
					return nil
				})
			if string(position) != test.position || errors.Is(err, couchdb.ErrMalformed) != test.malformed || !test.malformed && err != nil || strings.Join(names, " ") != test.names {
				t.Errorf("%.50q: %.50s, %q, %v", test.body, position, names, err)
			}
			if diff := cmp.Diff([]string{"GET /_db_updates?feed=continuous&heartbeat=4000&since=0"}, n.Requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHostSession: all databases of a server share a session.
func TestHostSession(t *testing.T) {
	s := &sessionServer{}
	inWorld(t, func(w http.ResponseWriter, r *http.Request) {
		s.left = 3
		s.ServeHTTP(w, r)
	}, func(t *testing.T, n *memnet.Net) {
		h := openHost(t, couchdb.Config{URL: "http://couch.test", HTTP: n.Client(), Auth: couchdb.Auth{Username: "user", Password: secret, Session: true}})
		for _, name := range []string{"a", "b/c", "d+e"} {
			if _, err := h.DB(name).Info(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"POST /_session", "GET /a", "GET /b%2Fc", "GET /d%2Be"}, n.Requests()); diff != "" {
			t.Error(diff)
		}
	})
}
