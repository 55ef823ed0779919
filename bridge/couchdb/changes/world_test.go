package changes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// A script is a server of one database, with a list of responses to requests for the database's
// changes.
type script struct {
	mu        sync.Mutex
	instance  string
	uuid      string // "403": requests for it are refused
	ill       int    // number of requests for the database that fail
	answers   []answer
	asked     []string // queries, without their common parameters
	otherwise answer
}

// An answer sends a response of the changes feed.
type answer func(w http.ResponseWriter, r *http.Request)

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if r.URL.Path == "/db" && s.ill > 0 {
		s.ill--
		s.mu.Unlock()
		refuse(503)(w, r)
		return
	}
	if r.URL.Path == "/db" {
		_, _ = fmt.Fprintf(w, `{"db_name":"db","update_seq":"now-x","instance_start_time":%q,"cluster":{}}`, s.instance)
		s.mu.Unlock()
		return
	}
	if r.URL.Path == "/" && s.uuid == "403" {
		w.WriteHeader(http.StatusForbidden)
		s.mu.Unlock()
		return
	}
	if r.URL.Path == "/" {
		_, _ = fmt.Fprintf(w, `{"couchdb":"Welcome","version":"2.3.1","uuid":%q}`, s.uuid)
		s.mu.Unlock()
		return
	}
	query := r.URL.Query()
	query.Del("heartbeat")
	body, _ := io.ReadAll(r.Body)
	s.asked = append(s.asked, strings.TrimSpace(query.Encode()+" "+string(body)))
	a := s.otherwise
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if a == nil {
		a = text(`{"results":[],"last_seq":"end"}`)
	}
	a(w, r)
}

// queries returns the requests so far.
func (s *script) queries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// send writes a string and flushes the response.
func send(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// text returns an answer that sends a string.
func text(body string) answer {
	return func(w http.ResponseWriter, _ *http.Request) { send(w, body) }
}

// cut returns an answer that sends a string, and then cuts the connection.
func cut(body string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		send(w, body)
		panic(http.ErrAbortHandler)
	}
}

// hang returns an answer that sends a string, and then nothing more.
func hang(body string) answer {
	return func(w http.ResponseWriter, r *http.Request) {
		send(w, body)
		<-r.Context().Done()
	}
}

// beat returns an answer that sends a string, and then heartbeats.
func beat(body string) answer {
	return func(w http.ResponseWriter, r *http.Request) {
		send(w, body)
		for r.Context().Err() == nil {
			send(w, "\n")
			select {
			case <-time.After(10 * time.Second):
			case <-r.Context().Done():
			}
		}
	}
}

// refuse returns an answer with an error status.
func refuse(status int, header ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		if len(header) > 0 {
			w.Header().Set("Retry-After", header[0])
		}
		w.WriteHeader(status)
		send(w, `{"error":"code","reason":"reason"}`)
	}
}

// rows returns rows of a normal feed, by the names of documents. The sequence is "s" followed by the
// name, or null if the name begins with "-"; "!" makes a row that is not JSON, and "?" one without an
// id.
func rows(names string) string {
	var b strings.Builder
	for i, name := range strings.Fields(names) {
		if i > 0 {
			b.WriteString(",\r\n")
		}
		b.WriteString(row(name))
	}
	return b.String()
}

func row(name string) string {
	switch {
	case strings.HasPrefix(name, "!"):
		return `{"seq":"s` + name + `","id":"` + name + `","changes":[`
	case strings.HasPrefix(name, "?"):
		return `{"seq":"s` + name + `"}`
	case strings.HasPrefix(name, "-"):
		return fmt.Sprintf(`{"seq":null,"id":%q,"changes":[{"rev":"1-x"}]}`, name[1:])
	}
	return fmt.Sprintf(`{"seq":"s%s","id":%q,"changes":[{"rev":"1-x"}]}`, name, name)
}

// normal returns a normal feed.
func normal(names, lastSeq string) string {
	return `{"results":[` + "\n" + rows(names) + "\n],\n" + `"last_seq":"` + lastSeq + `","pending":7}` + "\n"
}

// lines returns rows of a continuous feed.
func lines(names string) string {
	var b strings.Builder
	for name := range strings.FieldsSeq(names) {
		b.WriteString(row(name) + "\n")
	}
	return b.String()
}

// A world is a script, and a client of its database.
type world struct {
	*script
	net *memnet.Net
	db  *couchdb.DB
}

// inWorld runs a test in fake time.
func inWorld(t *testing.T, answers []answer, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{instance: "17", answers: answers}
		n := memnet.New(t, s)
		db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db", HTTP: n.Client()})
		if err != nil {
			t.Fatal(err)
		}
		test(t, &world{s, n, db})
	})
}

// A follower follows a feed in a goroutine, and again after errors that are not permanent.
type follower struct {
	*changes.Follower
	start    sync.Once
	ctx      context.Context
	batches  chan *changes.Batch
	err      error           // why batches is closed
	position json.RawMessage // of the last confirmed batch
}

func follow(t *testing.T, db *couchdb.DB, o changes.Options) *follower {
	t.Helper()
	inner, err := changes.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{Follower: inner, batches: make(chan *changes.Batch), position: o.Since}
	ctx, cancel := context.WithCancel(t.Context())
	f.ctx = ctx
	t.Cleanup(func() {
		cancel()
		f.start.Do(func() { close(f.batches) })
		for b := range f.batches {
			b.Close()
		}
	})
	return f
}

func (f *follower) run() {
	defer close(f.batches)
	for failed := 1; ; failed++ {
		f.err = f.Follow(f.ctx, func(b *changes.Batch) error {
			failed = 0
			select {
			case f.batches <- b:
				return nil
			case <-f.ctx.Done():
				b.Close()
				return f.ctx.Err()
			}
		})
		if f.err == nil {
			f.err = io.EOF
			return
		}
		if f.ctx.Err() != nil || failed == 12 || couchdb.Permanent(f.err) || errors.Is(f.err, changes.ErrRecreated) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Next returns the next batch, or the error after the last: io.EOF at the end of the feed.
func (f *follower) Next(ctx context.Context) (*changes.Batch, error) {
	f.start.Do(func() { go f.run() })
	select {
	case b, ok := <-f.batches:
		if !ok {
			return nil, f.err
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Confirm advances the position.
func (f *follower) Confirm(b *changes.Batch) {
	b.Close()
	if b.Seq != nil {
		f.position = b.Seq
	}
}

func (f *follower) Position() json.RawMessage { return f.position }

// read reads until there is an error, or nothing arrives for an hour, and confirms everything. It
// returns the names of the rows, and the error.
func read(t *testing.T, f *follower) (string, error) {
	t.Helper()
	var got []string
	for {
		b, err := next(t, f, time.Hour)
		if err != nil {
			return strings.Join(got, " "), err
		}
		for _, r := range b.Rows {
			got = append(got, name(r))
		}
		before := f.Position()
		f.Confirm(b)
		if b.Seq != nil && string(f.Position()) != string(b.Seq) || b.Seq == nil && string(f.Position()) != string(before) {
			t.Errorf("position is %s after a batch up to %s", f.Position(), b.Seq)
		}
	}
}

func name(r changes.Row) string {
	if r.Err != nil {
		return "(" + string(r.Raw) + ")"
	}
	return r.ID
}

var errNothing = errors.New("nothing came")

// next returns the next batch, or errNothing if none arrives in time.
func next(t *testing.T, f *follower, wait time.Duration) (*changes.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	b, err := f.Next(ctx)
	if err == context.DeadlineExceeded {
		err = errNothing
	}
	return b, err
}
