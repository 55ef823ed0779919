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
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// TestSilence: a silent filtered feed is read to its end once a minute to advance its position. A
// feed without a filter is not.
func TestSilence(t *testing.T) {
	for _, kind := range []changes.Feed{changes.Continuous, changes.LongPoll} {
		for _, filter := range []string{"", "app/mine"} {
			inWorld(t, nil, func(t *testing.T, w *world) {
				silent := beat("\n")
				if kind == changes.LongPoll {
					silent = beat("{\"results\":[\n")
				}
				w.answers = []answer{silent, text(normal("", "s1")), silent, refuse(500), text(normal("a", "s2")), silent}
				f := follow(t, w.db, changes.Options{Feed: kind, Filter: changes.Filter{Name: filter}})
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

// TestLongPollThatDoesNotWait: a long poll that ends at once without changes is an error, so it
// does not become a busy loop.
func TestLongPollThatDoesNotWait(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.otherwise = text(normal("", "s1"))
		f, err := changes.New(w.db, changes.Options{Feed: changes.LongPoll})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Follow(t.Context(), func(*changes.Batch) error { return nil })
		if n := len(w.queries()); err == nil || couchdb.Permanent(err) || n != 1 {
			t.Errorf("%d requests, %v", n, err)
		}
	})
}

// TestConnections: consecutive long polls share a connection.
func TestConnections(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for i := range 20 {
			w.answers = append(w.answers, text("\n"+normal(fmt.Sprint("d", i), fmt.Sprint("s", i))))
		}
		w.answers = append(w.answers, beat("{"))
		if _, err := read(t, follow(t, w.db, changes.Options{Feed: changes.LongPoll})); err != errNothing {
			t.Error(err)
		}
		if n := w.net.Dials(); n != 2 { // one for the feed, one for the database information
			t.Errorf("%d connections", n)
		}
	})
}

// TestNoSequence checks that rows without a sequence leave the position unchanged, and that a
// null document counts as missing.
func TestNoSequence(t *testing.T) {
	inWorld(t, []answer{beat(`{"seq":null,"id":"a","changes":[{"rev":"1-x"}],"doc":null}` + "\n")}, func(t *testing.T, w *world) {
		f := follow(t, w.db, changes.Options{Feed: changes.Continuous, Since: json.RawMessage(`"s0"`), IncludeDocs: true})
		b, err := next(t, f, time.Minute)
		if err != nil || len(b.Rows) != 1 || string(b.Seq) != `"s0"` || b.Rows[0].Seq != nil || b.Rows[0].Doc != nil || b.Pending != -1 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// many returns rows with n documents.
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

// TestBatches: batches have as many rows as are available, within the limits of rows and bytes.
func TestBatches(t *testing.T) {
	for _, o := range []changes.Options{{}, {BatchRows: 1}, {BatchRows: 7}, {BatchBytes: 1}, {BatchBytes: 5000}, {BatchRows: 50, BatchBytes: 20000}} {
		inWorld(t, []answer{text(`{"results":[` + many(500, 200) + `],"last_seq":499}`)}, func(t *testing.T, w *world) {
			o.IncludeDocs = true
			f := follow(t, w.db, o)
			n, batches := 0, 0
			for {
				synctest.Wait() // until nothing more is available
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

// TestLive: rows are delivered without waiting for more.
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

// TestClosed: large documents can be read until their batch is closed.
func TestClosed(t *testing.T) {
	inWorld(t, []answer{text(`{"results":[` + many(6, 3000) + `],"last_seq":5}`)}, func(t *testing.T, w *world) {
		f, err := changes.New(spooling(t, w, 1000, t.TempDir()), changes.Options{IncludeDocs: true, BatchRows: 2})
		if err != nil {
			t.Fatal(err)
		}
		var batches []*changes.Batch
		if err := f.Follow(t.Context(), func(b *changes.Batch) error { batches = append(batches, b); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			for _, r := range b.Rows {
				text, err := io.ReadAll(r.Doc.Reader())
				if err != nil || r.Doc.Bytes() != nil || !json.Valid(text) || int64(len(text)) != r.Doc.Size() {
					t.Errorf("%d bytes of %s, %v", len(text), r.ID, err)
				}
			}
			doc := b.Rows[0].Doc
			b.Close()
			b.Close() // has no effect
			if _, err := io.ReadAll(doc.Reader()); err == nil {
				t.Error("document can be read after its batch was closed")
			}
		}
	})
}

// spooling returns the database of w with other limits for documents in memory.
func spooling(t *testing.T, w *world, whole int, dir string) *couchdb.DB {
	db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db", HTTP: w.net.Client(), MaxWhole: whole, SpoolDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestCancelled: Follow ends with its context at any time, and leaves no files.
func TestCancelled(t *testing.T) {
	answers := map[string]answer{
		"no answer": hang(""), "hanging": hang(`{"results":[` + rows("a")), "live": beat(lines("a b")), "full": text(`{"results":[` + many(5000, 100) + `],"last_seq":1}`),
		"refused": refuse(429, "100"), "filtered": beat(""),
	}
	for name, a := range answers {
		for _, when := range []time.Duration{time.Nanosecond, time.Second, time.Minute} {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.otherwise = a
				dir := t.TempDir()
				o := changes.Options{Feed: changes.Continuous, IncludeDocs: true, BatchRows: 10}
				if name == "filtered" {
					o.Name = "app/mine"
				}
				f, err := changes.New(spooling(t, w, 10, dir), o)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), when)
				defer cancel()
				begun := time.Now()
				for ctx.Err() == nil {
					err = f.Follow(ctx, func(b *changes.Batch) error {
						b.Close()
						<-ctx.Done()
						return ctx.Err()
					})
				}
				if name != "refused" && !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > when {
					t.Errorf("%s after %v: %v, took %v", name, when, err, time.Since(begun))
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("%s after %v: %d files are left, %v", name, when, len(left), err)
				}
			})
		}
	}
}

// A giant is a feed with very large documents.
type giant struct {
	docs, size int
	other      string // an unknown member of the same size
	small      int    // number of unknown members of 50 KB
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

// TestMemory: memory is limited by the configuration, whatever the size and number of rows.
func TestMemory(t *testing.T) {
	for _, g := range []giant{{2, 30 << 20, "", 0}, {200, 200 << 10, "", 0}, {2, 30 << 20, "other", 0}, {20, 1000 << 10, "other", 0}, {2, 1000, "", 1000}} {
		db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db", HTTP: &http.Client{Transport: g}, SpoolDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		f := follow(t, db, changes.Options{IncludeDocs: true})
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
