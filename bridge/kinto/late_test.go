package kinto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/bridge/internal/bridgetest"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestLateCommitOnPostgreSQL: a batch stamps a record and then waits for a lock, while another record
// is being written. kinto.js reads the other record, and never that of the batch; the bridge reads
// both. The number of records remains the same, so only reading the window again finds the record of
// the batch.
func TestLateCommitOnPostgreSQL(t *testing.T) {
	server := kintotest.Start(t, kintotest.PostgreSQL)
	r := newRigOf(t, server.NewCollection(t))
	js := kintotest.StartJS(t, r.url)
	r.put("late", `"n":1`)
	r.put("locked", `"n":1`)
	js.Call("sync", nil, nil)
	const interval, window = 100 * time.Millisecond, 3 * time.Second
	r.configure = func(c *Config) { c.Follow, c.Interval, c.Window = true, interval, window }
	// A poll that left changes behind may be followed by the next one without a pause.
	polls := &polls{id: "late", most: int(window/interval) + 2, found: make(chan int, 1)}
	r.client.HTTP = &http.Client{Transport: polls}
	stop := r.started()
	r.await("locked", `"n":1`)

	commit := r.writeLate(server, "late", "locked")
	r.put("early", `"n":2`)
	js.Call("sync", nil, nil)
	r.await("early", `"n":2`)
	commit()
	polls.count()

	if n := <-polls.found; n > polls.most {
		t.Fatalf("the late commit was not read within %d polls, the length of a window and one poll", polls.most)
	}
	r.await("late", `"batch":true`)
	r.await("locked", `"batch":true`)
	r.put("after", `"n":3`)
	r.await("after", `"n":3`)
	stop()
	r.check()

	js.Call("sync", nil, nil)
	var has struct{ Data []map[string]any }
	js.Call("list", nil, &has)
	got := map[string]bool{}
	for _, record := range has.Data {
		got[record["id"].(string)] = record["batch"] == true
	}
	if want := map[string]bool{"late": false, "locked": false, "early": false, "after": false}; !maps.Equal(got, want) {
		t.Errorf("kinto.js has %v, want %v: it no longer loses the late commit", got, want)
	}
}

// polls is a transport that counts the requests for changes until a response has the batch's version of a
// record. It counts polls instead of measuring time because polls are at least an interval apart, however
// slow the machine is.
type polls struct {
	id    string
	most  int
	found chan int // receives the number of polls, once; a number above most means that the version was not found

	mu       sync.Mutex
	counting bool
	made     int
}

// count makes p begin to count.
func (p *polls) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counting = true
}

func (p *polls) RoundTrip(q *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil || !p.counting || !isList(q) {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var list struct {
		Data []struct {
			ID    string
			Batch bool
		}
	}
	if resp.StatusCode == http.StatusOK { // not 304
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, err
		}
	}
	p.made++
	found := p.made > p.most
	for _, record := range list.Data {
		found = found || record.ID == p.id && record.Batch
	}
	if found {
		p.counting = false
		p.found <- p.made
	}
	return resp, nil
}

// writeLate writes two records in a batch, of which the second is locked until commit is called. The
// first has its stamp when writeLate returns.
func (r *rig) writeLate(server *kintotest.Server, first, locked string) (commit func()) {
	r.t.Helper()
	db, err := pgx.Connect(r.t.Context(), server.Database())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = db.Close(context.Background()) })
	run := func(sql string, args ...any) {
		r.t.Helper()
		if _, err := db.Exec(r.t.Context(), sql, args...); err != nil {
			r.t.Fatal(err)
		}
	}
	run("BEGIN")
	run("SELECT FROM objects WHERE id = $1 AND parent_id = $2 AND resource_name = 'record' FOR UPDATE", locked, r.path())
	requests := []map[string]any{}
	for _, id := range []string{first, locked} {
		requests = append(requests, map[string]any{"method": "PUT", "path": r.path() + "/records/" + id, "body": map[string]any{"data": map[string]any{"batch": true}}})
	}
	body, err := json.Marshal(map[string]any{"requests": requests})
	if err != nil {
		r.t.Fatal(err)
	}
	stored := make(chan string)
	go func() {
		_, answer := kintotest.Try(r.t, http.MethodPost, r.root()+"/batch", string(body))
		stored <- answer
	}()
	for waiting := 0; waiting == 0; {
		if err := db.QueryRow(r.t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
			r.t.Fatal(err)
		}
	}
	return func() {
		run("COMMIT")
		if answer := <-stored; strings.Count(answer, `"batch":true`) != 2 {
			r.t.Errorf("batch: %s", answer)
		}
	}
}

// started runs a bridge, with its usual pauses, until stop is called.
func (r *rig) started() (stop func()) {
	r.t.Helper()
	b := r.open(r.store)
	b.core.Sleep = backoff.Sleep
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx)
		ended <- errors.Join(err, b.Close())
	}()
	return func() {
		r.t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Error(err)
		}
	}
}

// await waits until the feed has a version of the record that contains the given member.
func (r *rig) await(id, member string) {
	r.t.Helper()
	watch, err := r.store.(*memory.Store).Watch(r.t.Context(), "feeds/")
	if err != nil {
		r.t.Fatal(err)
	}
	has := func(e bridgetest.Event) bool { return e.ID == id && strings.Contains(e.Body, member) }
	for !slices.ContainsFunc(r.events(), has) {
		select {
		case <-watch:
		case <-r.t.Context().Done():
			r.t.Fatalf("%s with %s is not in the feed", id, member)
		}
	}
}
