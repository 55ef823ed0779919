package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// event is the part of an entity that does not depend on the time.
type event struct{ ID, Operation, Type, Key, Body string }

// events reads a feed from its first page to its last.
func events(t *testing.T, c *site, name string) []event {
	t.Helper()
	var all []event
	for path := "/feeds/" + name + "/pages/1"; path != ""; {
		got := c.get(t, path)
		boundary, err := page.Boundary(got.Header.Get("Content-Type"))
		check(t, err)
		for part, err := range page.NewReader(bytes.NewReader(got.body), boundary, page.ReaderOptions{MaxWhole: 8 << 20}).Parts() {
			check(t, err)
			var e feed.Entity
			check(t, feed.Parse(&e, part, true))
			all = append(all, event{e.ContentID, string(e.Operation), e.ContentType, e.Key(), string(e.Body)})
		}
		links, err := feed.ParseLinks(nil, got.Header)
		check(t, err)
		path = links.Next
	}
	return all
}

func receipt(t *testing.T, got answer) server.Receipt {
	t.Helper()
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("POST: %s %s", got.Status, got.body)
	}
	var r server.Receipt
	check(t, json.Unmarshal(got.body, &r))
	return r
}

const mixed = "--b\r\nContent-Type: text/plain\r\nContent-ID: <m1>\r\nContent-Location: k\r\n\r\none\r\n" +
	"--b\r\nContent-Type: text/plain\r\nContent-ID: <m2>\r\nOperation-Type: http-equiv=DELETE\r\n\r\n\r\n--b--\r\n"

func TestPublish(t *testing.T) {
	large := strings.Repeat("0123456789", 100_000) // goes through a file
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{Writable: true}))
		var want []event
		for _, tt := range []struct {
			path, body string
			fields     []string
			want       []event
		}{
			{"/feeds/f", "hello", []string{"Content-Type: text/plain", "Content-ID: <s1>", "Content-Location: a%20b"}, []event{{"<s1>", "PUT", "text/plain", "a b", "hello"}}},
			{"/feeds/f", "", []string{"Content-Type: text/plain", "Content-ID: <s2>", "Operation-Type: http-equiv=DELETE"}, []event{{"<s2>", "DELETE", "text/plain", "", ""}}},
			{"/feeds/f", "", []string{"Content-ID: <s4>", "Content-Location: k", "Operation-Type: DELETE"}, []event{{"<s4>", "DELETE", "text/plain; charset=us-ascii", "k", ""}}},
			{"/feeds/f", strings.Replace(strings.ReplaceAll(mixed, "<m", "<n"), "Content-Type: text/plain\r\nContent-ID: <n2>", "Content-ID: <n2>", 1), []string{"Content-Type: multipart/mixed; boundary=b"},
				[]event{{"<n1>", "PUT", "text/plain", "k", "one"}, {"<n2>", "DELETE", "text/plain; charset=us-ascii", "", ""}}},
			{"/feeds/f", large, []string{"Content-Type: text/plain", "Content-ID: <s3>"}, []event{{"<s3>", "PUT", "text/plain", "", large}}},
			{"/feeds/f", mixed, []string{"Content-Type: multipart/mixed; boundary=b"}, []event{{"<m1>", "PUT", "text/plain", "k", "one"}, {"<m2>", "DELETE", "text/plain", "", ""}}},
			{"/feeds/f", strings.Replace(strings.ReplaceAll(mixed, "<m", "<l"), "one", large, 1), []string{"Content-Type: multipart/mixed; boundary=b"}, []event{{"<l1>", "PUT", "text/plain", "k", large}, {"<l2>", "DELETE", "text/plain", "", ""}}},
			{"/feeds/f?key=/id&op-field=/op&content-id=/event", `{"id":1,"event":"n1"}` + "\n" + `{"id":2,"event":"n2","op":"patch"}`, []string{"Content-Type: application/x-ndjson"},
				[]event{{"n1", "PUT", "application/json", "1", `{"id":1,"event":"n1"}`}, {"n2", "PATCH", "application/json", "2", `{"id":2,"event":"n2","op":"patch"}`}}},
			{"/feeds/f?op=DELETE&content-type=a/b&content-id=", `{}`, []string{"Content-Type: application/x-ndjson; charset=utf-8"}, []event{{"", "DELETE", "a/b", "", "{}"}}},
		} {
			got := c.do(t, http.MethodPost, tt.path, tt.body, tt.fields...)
			r := receipt(t, got)
			if r.Published != len(tt.want) || r.Duplicates != 0 || !strings.HasPrefix(r.Page, c.url+"/feeds/f/pages/") || r.ContentID == "" {
				t.Errorf("POST %s: receipt %+v", tt.path, r)
			}
			if tt.want[0].ID == "" {
				tt.want[0].ID = r.ContentID // it was generated
			} else if r = receipt(t, c.do(t, http.MethodPost, tt.path, tt.body, tt.fields...)); r.Published != 0 || r.Duplicates != len(tt.want) {
				t.Errorf("POST %s again: receipt %+v", tt.path, r)
			}
			want = append(want, tt.want...)
		}
		if diff := cmp.Diff(want, events(t, c, "f")); diff != "" {
			t.Errorf("feed (-want +got):\n%.2000s", diff)
		}
	})
}

func TestPublishManyBatches(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{Writable: true}))
		const clients, lines = 3, 1100
		var group sync.WaitGroup
		for client := range clients {
			group.Go(func() {
				var body strings.Builder
				for n := range lines {
					fmt.Fprintf(&body, "{\"id\":\"%d-%d\",\"pad\":%q}\n", client, n, strings.Repeat("x", n%100))
				}
				r := receipt(t, c.do(t, http.MethodPost, "/feeds/f?content-id=/id", body.String(), "Content-Type: application/x-ndjson"))
				if r.Published != lines {
					t.Errorf("receipt %+v", r)
				}
			})
		}
		group.Wait()
		next := make(map[string]int)
		for _, e := range events(t, c, "f") {
			client, number, _ := strings.Cut(e.ID, "-")
			if number != fmt.Sprint(next[client]) {
				t.Fatalf("client %s: entity %s, want %d", client, number, next[client])
			}
			next[client]++
		}
		for client, n := range next {
			if n != lines || len(next) != clients {
				t.Errorf("client %s: %d entities", client, n)
			}
		}
	})
}

func TestPublishRefuses(t *testing.T) {
	const ndjson = "Content-Type: application/x-ndjson"
	tests := []struct {
		name, path, body string
		fields           []string
		status           int
		problem          string
	}{
		{"name", "/feeds/a..b", "x", []string{"Content-Type: text/plain"}, 400, "invalid-request"},
		{"no Content-Type", "/feeds/f", "x", nil, 400, "invalid-request"},
		{"Content-Type", "/feeds/f", "x", []string{"Content-Type: a b"}, 400, "invalid-request"},
		{"operation", "/feeds/f", "x", []string{"Content-Type: text/plain", "Operation-Type: COPY"}, 400, "invalid-request"},
		{"Content-ID", "/feeds/f", "x", []string{"Content-Type: text/plain", "Content-ID: a b"}, 400, "invalid-request"},
		{"parameters of one entity", "/feeds/f?key=/id", "x", []string{"Content-Type: text/plain"}, 400, "invalid-request"},
		{"too large", "/feeds/f", strings.Repeat("x", 2001), []string{"Content-Type: text/plain"}, 413, "too-large"},

		{"no boundary", "/feeds/f", mixed, []string{"Content-Type: multipart/mixed"}, 400, "invalid-request"},
		{"cut", "/feeds/f", mixed[:len(mixed)-10], []string{"Content-Type: multipart/mixed; boundary=b"}, 400, "invalid-request"},
		{"part too large", "/feeds/f", strings.Replace(mixed, "one", strings.Repeat("x", 2001), 1), []string{"Content-Type: multipart/mixed; boundary=b"}, 413, "too-large"},
		{"coding", "/feeds/f", "x", []string{"Content-Type: multipart/mixed; boundary=b", "Content-Encoding: gzip"}, 415, "media-type"},

		{"line", "/feeds/f", "{}\n{", []string{ndjson}, 400, "invalid-request"},
		{"key", "/feeds/f?key=/id", "{}", []string{ndjson}, 400, "invalid-request"},
		{"line too long", "/feeds/f", `"` + strings.Repeat("x", 2000) + `"`, []string{ndjson}, 413, "too-large"},
		{"body too large", "/feeds/f", strings.Repeat(`"`+strings.Repeat("x", 600)+"\"\n", 10), []string{ndjson}, 413, "too-large"},
		{"pointer", "/feeds/f?key=id", "{}", []string{ndjson}, 400, "invalid-request"},
		{"parameter", "/feeds/f?kee=/id", "{}", []string{ndjson}, 400, "invalid-request"},
		{"parameter twice", "/feeds/f?key=/a&key=/b", "{}", []string{ndjson}, 400, "invalid-request"},
		{"parameter op", "/feeds/f?op=COPY", "{}", []string{ndjson}, 400, "invalid-request"},
		{"query", "/feeds/f?key=%zz", "{}", []string{ndjson}, 400, "invalid-request"},
	}
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{Writable: true, MaxEntity: 2000, MaxBody: 5000}))
		for _, tt := range tests {
			for _, chunked := range []bool{false, true} {
				body := struct{ *strings.Reader }{strings.NewReader(tt.body)} // of unknown size
				r, err := http.NewRequest(http.MethodPost, c.url+tt.path, body)
				check(t, err)
				if !chunked {
					r.ContentLength = int64(len(tt.body))
				}
				for _, field := range tt.fields {
					name, value, _ := strings.Cut(field, ": ")
					r.Header.Set(name, value)
				}
				response, err := c.client.Do(r)
				check(t, err)
				got := answer{Response: response, body: readAll(t, response)}
				name, members := got.problem(t)
				if got.StatusCode != tt.status || name != tt.problem {
					t.Errorf("%s: %s %s, want %d %s", tt.name, got.Status, got.body, tt.status, tt.problem)
				}
				if n, ok := members["published"]; ok && n != 0.0 {
					t.Errorf("%s: %v entities were published before", tt.name, n)
				}
			}
		}
		if got := c.get(t, "/feeds/f"); got.StatusCode != http.StatusNotFound {
			t.Errorf("something was published: %.500s", got.body)
		}
	})
}

func readAll(t *testing.T, response *http.Response) []byte {
	t.Helper()
	defer response.Body.Close()
	var body bytes.Buffer
	_, err := body.ReadFrom(response.Body)
	check(t, err)
	return body.Bytes()
}

// TestPublishCountsBeforeError: the problem counts the entities published before the error.
func TestPublishCountsBeforeError(t *testing.T) {
	c := inside(t, newServer(t, memory.New(), server.Config{Writable: true}))
	var body strings.Builder
	for n := range 1500 {
		fmt.Fprintf(&body, "{\"id\":\"%d\"}\n", n)
	}
	body.WriteString("no JSON\n")
	got := c.do(t, http.MethodPost, "/feeds/f?content-id=/id", body.String(), "Content-Type: application/x-ndjson")
	name, members := got.problem(t)
	if name != "invalid-request" || members["published"] != 1000.0 || members["duplicates"] != 0.0 || !strings.Contains(members["detail"].(string), "line 1501") {
		t.Errorf("got %s", got.body)
	}
	got = c.do(t, http.MethodPost, "/feeds/f?content-id=/id", strings.TrimSuffix(body.String(), "no JSON\n"), "Content-Type: application/x-ndjson")
	if r := receipt(t, got); r.Published != 500 || r.Duplicates != 1000 {
		t.Errorf("repeated: %+v", r)
	}
}

// refusing is a store to which no page can be written.
type refusing struct {
	storage.Store
	err error
}

func (s refusing) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if key == layout.FeedFloor("f") { // only the first page is refused
		return s.Store.Create(ctx, key, meta, body)
	}
	return "", s.err
}

func TestStoreProblems(t *testing.T) {
	publish := func(c *site) answer {
		return c.do(t, http.MethodPost, "/feeds/f", "x", "Content-Type: text/plain")
	}
	for _, tt := range []struct {
		name    string
		store   storage.Store
		config  producer.Config
		request func(c *site) answer
		status  int
		problem string
	}{
		{"full", refusing{memory.New(), storage.ErrFull}, producer.Config{}, publish, 507, "full"},
		{"permission", refusing{memory.New(), storage.ErrPermission}, producer.Config{}, publish, 500, "internal"},
		{"unknown outcome", refusing{memory.New(), fault.ErrInjected}, producer.Config{RetryFor: time.Millisecond}, publish, 503, "unknown-outcome"},
		{"clock", memory.New(), producer.Config{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }}, publish, 503, "clock"},
		{"reading", fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return fault.Lost }), producer.Config{},
			func(c *site) answer { return c.get(t, "/feeds/f") }, 500, "internal"},
		{"snapshots", fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return fault.Lost }), producer.Config{},
			func(c *site) answer { return c.get(t, "/snapshots/s") }, 500, "internal"},
		{"directory", fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return fault.Lost }), producer.Config{},
			func(c *site) answer { return c.get(t, "/") }, 500, "internal"},
		{"readiness", fault.Wrap(memory.New(), func(fault.Op) fault.Outcome { return fault.Lost }), producer.Config{},
			func(c *site) answer { return c.get(t, "/readyz") }, 503, "store-away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := inside(t, newServer(t, tt.store, server.Config{Writable: true, Producer: tt.config}))
			got := tt.request(c)
			if name, _ := got.problem(t); got.StatusCode != tt.status || name != tt.problem {
				t.Errorf("got %s, want %d %s", got.body, tt.status, tt.problem)
			}
			if strings.Contains(string(got.body), "injected") {
				t.Errorf("the problem reveals internal details: %s", got.body)
			}
		})
	}
}

func TestPublishesAreLimited(t *testing.T) {
	store := memory.New()
	s := newServer(t, store, server.Config{Writable: true, MaxPublishes: 1})
	c := inside(t, s)
	started, release := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequest(http.MethodPost, "/feeds/f", &gate{started: started, release: release})
		r.Header.Set("Content-Type", "text/plain")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-started
	got := c.do(t, http.MethodPost, "/feeds/f", "x", "Content-Type: text/plain")
	if name, _ := got.problem(t); name != "busy" || got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %s %s", got.Status, got.body)
	}
	close(release)
	<-done
	c.post(t, "f", "<2>")
}

// TestLongLines: lines up to input.DefaultMaxLine are accepted; long lines of several requests are read one
// after another.
func TestLongLines(t *testing.T) {
	c := inside(t, newServer(t, memory.New(), server.Config{Writable: true}))
	line := `"` + strings.Repeat("x", input.DefaultMaxLine-2) + `"`
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			got := c.do(t, http.MethodPost, "/feeds/f", "1\n"+line+"\n2\n"+line, "Content-Type: application/x-ndjson")
			if got.StatusCode != http.StatusOK || !strings.Contains(string(got.body), `"published":4`) {
				t.Errorf("got %s %s", got.Status, got.body)
			}
			// The turn ends with the request, even if the request is refused.
			got = c.do(t, http.MethodPost, "/feeds/f", line+"x", "Content-Type: application/x-ndjson")
			if name, _ := got.problem(t); name != "too-large" {
				t.Errorf("got %s %s", got.Status, got.body)
			}
		})
	}
	group.Wait()
}

// TestLongLinesTakeTurns: the second of two requests with a long line waits until the first has ended.
func TestLongLinesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, memory.New(), server.Config{Writable: true})
		long := strings.Repeat("x", input.LengthyLine+128<<10)
		post := func(body io.Reader) chan int {
			status := make(chan int, 1)
			go func() {
				r := httptest.NewRequest(http.MethodPost, "/feeds/f", body)
				r.Header.Set("Content-Type", "application/x-ndjson")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				status <- w.Code
			}()
			return status
		}
		body := &gate{started: make(chan struct{}), release: make(chan struct{})}
		first := post(io.MultiReader(strings.NewReader(`"`+long), body))
		<-body.started // the first request has read its line and holds the semaphore
		second := post(strings.NewReader(`"` + long + `"`))
		synctest.Wait()
		select {
		case status := <-second:
			t.Fatalf("a second long line was answered %d while the first was being published", status)
		default:
		}
		close(body.release)
		<-first
		if status := <-second; status != http.StatusOK {
			t.Errorf("the second is answered %d", status)
		}
	})
}

// A gate is a body that waits before its end.
type gate struct {
	started, release chan struct{}
	once             sync.Once
}

func (g *gate) Read([]byte) (int, error) {
	g.once.Do(func() { close(g.started) })
	<-g.release
	return 0, http.ErrBodyReadAfterClose
}

// TestManyFeeds publishes to more feeds than producers are kept open.
func TestManyFeeds(t *testing.T) {
	c := inside(t, newServer(t, memory.New(), server.Config{Writable: true, MaxProducers: 2}))
	var group sync.WaitGroup
	for client := range 8 {
		group.Go(func() {
			for n := range 20 {
				c.post(t, fmt.Sprintf("f%d", (client+n)%5), fmt.Sprintf("<%d-%d>", client, n))
			}
		})
	}
	group.Wait()
	total := 0
	for n := range 5 {
		total += len(events(t, c, fmt.Sprintf("f%d", n)))
	}
	if total != 160 {
		t.Errorf("%d entities, want 160", total)
	}
}

// TestCloseWaitsForPublishes: Close waits for a publish that has begun, until the context of Close ends.
func TestCloseWaitsForPublishes(t *testing.T) {
	s, err := server.New(memory.New(), server.Config{Writable: true})
	check(t, err)
	body := &gate{started: make(chan struct{}), release: make(chan struct{})}
	go func() {
		r := httptest.NewRequest(http.MethodPost, "/feeds/f", body)
		r.Header.Set("Content-Type", "text/plain")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-body.started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("Close did not wait")
	}
	close(body.release)
	check(t, s.Close(context.Background()))
}
