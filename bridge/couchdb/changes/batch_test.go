package changes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// TestSilence: a filtered feed that says nothing is read to its end once a minute,
// and its position moves on; one without a filter is left alone.
func TestSilence(t *testing.T) {
	for _, kind := range []changes.Feed{changes.Continuous, changes.LongPoll} {
		for _, filter := range []string{"", "app/mine"} {
			inWorld(t, nil, func(t *testing.T, w *world) {
				silent := beat("\n")
				if kind == changes.LongPoll {
					silent = beat("{\"results\":[\n")
				}
				w.answers = []answer{silent, text(normal("", "s1")), silent, refuse(500), text(normal("a", "s2")), silent}
				f := follow(t, w.db, changes.Options{Feed: kind, Filter: filter})
				begun := time.Now()
				var got []string
				for range 2 {
					b, err := next(t, f, 10*time.Minute)
					if filter == "" {
						if err != errNothing {
							t.Errorf("%+v, %v", b, err)
						}
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took < time.Minute || took > 3*time.Minute {
						t.Errorf("took %v", took)
					}
					for _, r := range b.Rows {
						got = append(got, r.ID)
					}
					got = append(got, string(b.Seq))
					f.Confirm(b)
				}
				time.Sleep(10 * time.Second)
				if filter == "" {
					if len(w.queries()) != 1 {
						t.Errorf("%q", w.queries())
					}
					return
				}
				live, end := "feed="+kind.String()+"&filter=app%2Fmine", "feed=normal&filter=app%2Fmine"
				if diff := cmp.Diff([]string{live, end, live + "&since=s1", end + "&since=s1", end + "&since=s1", live + "&since=s2"}, w.queries()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]string{`"s1"`, "a", `"s2"`}, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestLongPollThatDoesNotWait does not become a busy loop.
func TestLongPollThatDoesNotWait(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.otherwise = text(normal("", "s1"))
		if got, err := read(t, follow(t, w.db, changes.Options{Feed: changes.LongPoll})); got != "" || err != errNothing {
			t.Errorf("got %q and %v", got, err)
		}
		if n := len(w.queries()); n < 100 || n > 400 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// TestConnections: long polls one after the other share a connection.
func TestConnections(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for i := range 20 {
			w.answers = append(w.answers, text("\n"+normal(fmt.Sprint("d", i), fmt.Sprint("s", i))))
		}
		w.answers = append(w.answers, beat("{"))
		if _, err := read(t, follow(t, w.db, changes.Options{Feed: changes.LongPoll})); err != errNothing {
			t.Error(err)
		}
		if n := w.net.Dials(); n != 2 { // one for the feed, one to ask what it is of
			t.Errorf("%d connections", n)
		}
	})
}

// TestForgives: a connection that was well for long begins with short pauses
// again.
func TestForgives(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for range 7 {
			w.answers = append(w.answers, refuse(500))
		}
		var ended, asked time.Time
		w.answers = append(w.answers, func(rw http.ResponseWriter, _ *http.Request) {
			for range 100 {
				send(rw, "\n")
				time.Sleep(10 * time.Second)
			}
			ended = time.Now()
			panic(http.ErrAbortHandler)
		}, func(rw http.ResponseWriter, r *http.Request) {
			asked = time.Now()
			beat("")(rw, r)
		})
		if _, err := read(t, follow(t, w.db, changes.Options{Feed: changes.Continuous})); err != errNothing {
			t.Error(err)
		}
		if pause := asked.Sub(ended); pause > time.Second {
			t.Errorf("paused for %v", pause)
		}
	})
}

// TestServerErrors: what the server says in the middle of a feed is what the
// follower gives up with.
func TestServerErrors(t *testing.T) {
	for _, body := range []string{
		`{"results":[` + "\n" + `{"error":"timeout","reason":"the shard is gone"}`,
		`{"results":[],"error":"timeout","reason":"the shard is gone"}`,
		`{"error":"timeout","reason":"the shard is gone"}`,
	} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.otherwise = text(body)
			_, err := read(t, follow(t, w.db, changes.Options{Attempts: 2}))
			if err == nil || !strings.Contains(err.Error(), "timeout: the shard is gone") || !strings.Contains(err.Error(), "2 attempts") {
				t.Error(err)
			}
		})
	}
}

// TestNoSequence: rows without a sequence leave the position where it was, and a
// document that is null is none.
func TestNoSequence(t *testing.T) {
	inWorld(t, []answer{beat(`{"seq":null,"id":"a","changes":[{"rev":"1-x"}],"doc":null}` + "\n")}, func(t *testing.T, w *world) {
		f := follow(t, w.db, changes.Options{Feed: changes.Continuous, Since: json.RawMessage(`"s0"`), IncludeDocs: true})
		b, err := next(t, f, time.Minute)
		if err != nil || len(b.Rows) != 1 || string(b.Seq) != `"s0"` || b.Rows[0].Seq != nil || b.Rows[0].Doc != nil || b.Pending != -1 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// many returns rows with these many documents.
func many(n, size int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"seq":%d,"id":"d%d","changes":[{"rev":"1-x"}],"doc":{"_id":"d%d","_rev":"1-x","t":"%s"}}`, i, i, i, strings.Repeat("x", size))
	}
	return b.String()
}

// TestBatches: they have no more rows and bytes than wanted, and as many as there
// are.
func TestBatches(t *testing.T) {
	for _, o := range []changes.Options{{}, {BatchRows: 1}, {BatchRows: 7}, {BatchBytes: 1}, {BatchBytes: 5000}, {BatchRows: 50, BatchBytes: 20000}} {
		inWorld(t, []answer{text(`{"results":[` + many(500, 200) + `],"last_seq":499}`)}, func(t *testing.T, w *world) {
			o.IncludeDocs = true
			f := follow(t, w.db, o)
			n, batches := 0, 0
			for {
				synctest.Wait() // until no more is ready
				b, err := next(t, f, time.Hour)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				size := 0
				for _, r := range b.Rows {
					if want := fmt.Sprintf("d%d", n); r.ID != want || r.Meta.ID != want || !strings.Contains(string(r.Doc.Bytes()), want) {
						t.Errorf("row of %s with %.100s", r.ID, r.Doc.Bytes())
					}
					size += len(r.Doc.Bytes())
					n++
				}
				if rows := len(b.Rows); o.BatchRows > 0 && rows > o.BatchRows || o.BatchBytes > 0 && rows > 1 && size > o.BatchBytes || string(b.Seq) != fmt.Sprint(n-1) {
					t.Errorf("%+v: batch of %d rows, %d bytes, up to %s", o, rows, size, b.Seq)
				}
				batches++
			}
			fewest := 1
			if o.BatchRows > 0 {
				fewest = 500 / o.BatchRows
			}
			if n != 500 || o.BatchBytes == 0 && batches > fewest+6 {
				t.Errorf("%+v: %d rows in %d batches", o, n, batches)
			}
		})
	}
}

// TestLive: what is there is handed out before more is waited for.
func TestLive(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		feed := make(chan string)
		w.answers = []answer{func(rw http.ResponseWriter, r *http.Request) {
			send(rw, "\n")
			for {
				select {
				case names := <-feed:
					send(rw, names)
				case <-r.Context().Done():
					return
				}
			}
		}}
		f := follow(t, w.db, changes.Options{Feed: changes.Continuous, Heartbeat: time.Minute})
		for _, step := range []struct{ send, want string }{{lines("a"), "a"}, {lines("b c"), "b c"}, {"\n", ""}, {row("d"), "d"}, {"\n", ""}, {row("e")[:20], ""}, {row("e")[20:] + "\n", "e"}} {
			begun := time.Now()
			go func() { feed <- step.send }()
			var got []string
			if b, err := next(t, f, time.Second); err == nil {
				for _, r := range b.Rows {
					got = append(got, r.ID)
				}
			}
			if strings.Join(got, " ") != step.want {
				t.Errorf("%q: got %q", step.send, got)
			}
			if step.want != "" && time.Since(begun) != 0 {
				t.Errorf("took %v", time.Since(begun))
			}
		}
	})
}

// TestConfirm: the position is that of what was confirmed, and large documents
// live as long.
func TestConfirm(t *testing.T) {
	inWorld(t, []answer{text(`{"results":[` + many(6, 3000) + `],"last_seq":5}`)}, func(t *testing.T, w *world) {
		f := follow(t, w.db, changes.Options{Since: json.RawMessage(`"start"`), IncludeDocs: true, BatchRows: 2, MaxWhole: 1000, SpoolDir: t.TempDir()})
		var batches []*changes.Batch
		for range 3 {
			b, err := next(t, f, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			batches = append(batches, b)
		}
		check := func(position string, readable ...bool) {
			t.Helper()
			if got := string(f.Position()); got != position {
				t.Errorf("position is %s, want %s", got, position)
			}
			for i, b := range batches {
				doc := b.Rows[1].Doc
				text, err := io.ReadAll(doc.Reader())
				if doc.Bytes() != nil || (err == nil) != readable[i] || err == nil && (!json.Valid(text) || int64(len(text)) != doc.Size()) {
					t.Errorf("batch %d: %d bytes, %v", i, len(text), err)
				}
			}
		}
		check(`"start"`, true, true, true)
		f.Confirm(batches[1])
		check("3", false, false, true)
		f.Confirm(batches[0]) // is long confirmed
		f.Confirm(new(changes.Batch))
		check("3", false, false, true)
		f.Confirm(batches[2])
		check("5", false, false, false)
	})
}

// TestClose: at any time, and nothing is left.
func TestClose(t *testing.T) {
	answers := map[string]answer{
		"no answer": hang(""), "hanging": hang(`{"results":[` + rows("a")), "live": beat(lines("a b")), "full": text(`{"results":[` + many(5000, 100) + `],"last_seq":1}`),
		"refused": refuse(503, "100"), "ended": text(normal("a", "sa")), "gone": refuse(404),
	}
	for name, a := range answers {
		for _, when := range []time.Duration{-1, 0, time.Second, time.Minute} {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.otherwise = a
				dir := t.TempDir()
				f, err := changes.New(w.db, changes.Options{Feed: changes.Continuous, IncludeDocs: true, BatchRows: 10, MaxWhole: 10, SpoolDir: dir})
				if err != nil {
					t.Fatal(err)
				}
				if when >= 0 {
					_, _ = next(t, f, time.Nanosecond)
					time.Sleep(when)
				}
				begun := time.Now()
				var both sync.WaitGroup
				both.Go(func() { _ = f.Close() })
				_ = f.Close()
				both.Wait()
				if b, err := f.Next(t.Context()); b != nil || err == nil || time.Since(begun) != 0 {
					t.Errorf("%s after %v: %+v, %v, took %v", name, when, b, err, time.Since(begun))
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("%s after %v: %d files are left, %v", name, when, len(left), err)
				}
			})
		}
	}
}

// TestContext: Next ends with its context, and can be called again.
func TestContext(t *testing.T) {
	inWorld(t, []answer{beat(lines("a")), beat(lines("b"))}, func(t *testing.T, w *world) {
		f := follow(t, w.db, changes.Options{Feed: changes.Continuous})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got, err := read(t, f); got != "a" || err != errNothing {
			t.Errorf("got %q and %v", got, err)
		}
		if len(w.queries()) != 1 {
			t.Errorf("%q", w.queries())
		}
	})
}

// A giant is a feed with documents without an end in sight.
type giant struct {
	docs, size int
	other      string // a member of the same size that is none of a row's
	small      int    // so many members of 50 KB that are none of a row's
}

func (g giant) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Request: r}
	if r.URL.Path == "/db" {
		resp.Body = io.NopCloser(strings.NewReader(`{"update_seq":1}`))
		return resp, nil
	}
	parts := []io.Reader{strings.NewReader(`{"results":[`)}
	for i := range g.docs {
		head := `{"seq":1,"id":"d","changes":[{"rev":"1-x"}],`
		if i > 0 {
			head = ",\n" + head
		}
		if parts = append(parts, strings.NewReader(head)); g.other != "" {
			parts = append(parts, strings.NewReader(`"`+g.other+`":"`), io.LimitReader(xs{}, int64(g.size)), strings.NewReader(`",`))
		}
		for range g.small {
			parts = append(parts, strings.NewReader(`"small":"`), io.LimitReader(xs{}, 50_000), strings.NewReader(`",`))
		}
		parts = append(parts, strings.NewReader(`"doc":{"_id":"d","_rev":"1-x","t":"`), io.LimitReader(xs{}, int64(g.size)), strings.NewReader(`","_attachments":{},"_deleted":true}}`))
	}
	parts = append(parts, strings.NewReader(`],"last_seq":2}`))
	resp.Body = io.NopCloser(io.MultiReader(parts...))
	return resp, nil
}

type xs struct{}

var manyXs = strings.Repeat("x", 1<<20)

func (xs) Read(p []byte) (int, error) { return copy(p, manyXs), nil }

// TestMemory: rows of any size, and any number of them, take as much memory as
// the configuration says.
func TestMemory(t *testing.T) {
	for _, g := range []giant{{2, 30 << 20, "", 0}, {200, 200 << 10, "", 0}, {2, 30 << 20, "other", 0}, {20, 1000 << 10, "other", 0}, {2, 1000, "", 1000}} {
		db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db", HTTP: &http.Client{Transport: g}})
		if err != nil {
			t.Fatal(err)
		}
		f := follow(t, db, changes.Options{IncludeDocs: true, SpoolDir: t.TempDir()})
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		before, most, n := stats.HeapAlloc, uint64(0), 0
		for {
			b, err := f.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Rows {
				if n++; !r.Meta.Deleted || !r.Meta.HasAttachments || r.Meta.Rev != "1-x" || r.Doc.Size() < int64(g.size) {
					t.Errorf("%+v of %d bytes", r.Meta, r.Doc.Size())
				}
			}
			if n%50 < 2 {
				runtime.GC()
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapAlloc)
			}
			f.Confirm(b)
		}
		if n != g.docs || most > before+12<<20 {
			t.Errorf("%+v: %d rows, %d KiB of memory", g, n, (most-before)>>10)
		}
	}
}
