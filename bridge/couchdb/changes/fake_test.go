package changes_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// A writer changes documents at random, and records which revision of each document a follower must
// have seen last.
type writer struct {
	db   *couchdb.DB
	rand *rand.Rand
	want map[string]string // winning revision by id
	gen  map[string]int
	n    int
}

func newWriter(db *couchdb.DB, seed uint64) *writer {
	return &writer{db: db, rand: rand.New(rand.NewPCG(seed, 1)), want: make(map[string]string), gen: make(map[string]int)}
}

// write stores new revisions of some documents. Each replaces the document's previous revision, so
// it wins.
func (w *writer) write(t *testing.T) {
	t.Helper()
	var docs [][]byte
	for range 1 + w.rand.IntN(20) {
		id := fmt.Sprintf("doc %d/ä+", w.rand.IntN(60))
		w.gen[id]++
		w.n++
		ids := []string{strconv.Quote(fmt.Sprintf("%032x", w.n))}
		if before := w.want[id]; before != "" {
			_, hash, _ := strings.Cut(before, "-")
			ids = append(ids, strconv.Quote(hash))
		}
		w.want[id] = fmt.Sprintf("%d-%032x", w.gen[id], w.n)
		deleted := ""
		if w.rand.IntN(4) == 0 {
			deleted = `"_deleted":true,`
		}
		docs = append(docs, fmt.Appendf(nil, `{"_id":%q,"_rev":%q,%s"_revisions":{"start":%d,"ids":[%s]},"text":%q}`,
			id, w.want[id], deleted, w.gen[id], strings.Join(ids, ","), strings.Repeat("x", w.rand.IntN(300))))
	}
	results, err := w.db.BulkDocs(t.Context(), docs, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// A reader applies rows as a follower of the feed does.
type reader struct {
	seen map[string]string // revision by id
}

func (r *reader) take(t *testing.T, b *changes.Batch) {
	t.Helper()
	for _, row := range b.Rows {
		if row.Err != nil {
			t.Fatal(row.Err, string(row.Raw))
		}
		if row.Doc == nil || row.Meta.ID != row.ID || row.Meta.Rev != row.Revs[0] || row.Meta.Deleted != row.Deleted {
			t.Errorf("row %q %q with a document %+v", row.ID, row.Revs, row.Meta)
		}
		if old := r.seen[row.ID]; old == "" || generation(row.Revs[0]) >= generation(old) {
			r.seen[row.ID] = row.Revs[0]
		}
	}
}

func generation(rev string) int {
	n, _, _ := strings.Cut(rev, "-")
	g, _ := strconv.Atoi(n)
	return g
}

// behind returns a document whose winner was not seen, if any.
func (r *reader) behind(w *writer) string {
	for id, rev := range w.want {
		if r.seen[id] != rev {
			return fmt.Sprintf("%s at %s, not %s", id, r.seen[id], rev)
		}
	}
	return ""
}

// TestRandom writes and follows, while the follower is closed and continues from its
// position, and the server fails and forgets sequences and sessions. In the end, every
// change must have been seen.
func TestRandom(t *testing.T) {
	for _, kind := range []changes.Feed{changes.Continuous, changes.LongPoll, changes.Normal} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("fake/%v/%d", kind, seed), func(t *testing.T) {
				t.Parallel()
				fake := couchtest.NewFake(t)
				url := fake.NewDB(t)
				healthy, err := couchdb.Open(couchdb.Config{URL: url, Auth: couchdb.Auth{Username: "user", Password: "pass"}})
				if err != nil {
					t.Fatal(err)
				}
				fake.Require(couchtest.Credentials{User: "user", Password: "pass"})
				session := couchdb.Config{URL: url, Auth: couchdb.Auth{Username: "user", Password: "pass", Session: true}}
				random(t, healthy, session, kind, seed, func(r *rand.Rand) {
					switch r.IntN(8) {
					case 0:
						fake.Inject(1+r.IntN(2), couchtest.On("", "_changes"), couchtest.Cut(r.IntN(3000)))
					case 1:
						fake.Inject(1, couchtest.On("", "_changes"), couchtest.Refuse(500+r.IntN(4), "broken", "for a while"))
					case 2:
						fake.Inject(1, couchtest.On("", "_changes"), couchtest.Stall(r.IntN(2000), nil))
					case 3:
						fake.Rewind(healthy.Name(), "")
					case 4:
						fake.ExpireSessions()
					case 5:
						fake.Drop()
					}
				})
			})
		}
		t.Run(fmt.Sprintf("server/%v", kind), func(t *testing.T) {
			t.Parallel()
			url := couchtest.NewDB(t)
			db, err := couchdb.Open(couchdb.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			random(t, db, couchdb.Config{URL: url}, kind, 1, func(*rand.Rand) {})
		})
	}
}

func random(t *testing.T, healthy *couchdb.DB, config couchdb.Config, kind changes.Feed, seed uint64, harm func(*rand.Rand)) {
	w := newWriter(healthy, seed)
	r := &reader{seen: make(map[string]string)}
	o := changes.Options{
		Feed: kind, IncludeDocs: true, BatchRows: 1 + w.rand.IntN(30), SeqInterval: w.rand.IntN(5), PageRows: w.rand.Int64N(40),
		Heartbeat: 200 * time.Millisecond,
	}
	config.MaxWhole, config.SpoolDir = 100, t.TempDir()
	db, err := couchdb.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *follower { return follow(t, db, o) }
	f := open()
	// step reads a batch, or restarts at the last position.
	step := func() {
		b, err := f.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			o.Since = f.Position()
			f = open()
			return
		case err != nil:
			t.Fatal(err)
		}
		r.take(t, b)
		if w.rand.IntN(3) > 0 {
			f.Confirm(b)
		}
		if w.rand.IntN(10) == 0 { // a crash: what was not confirmed is repeated
			o.Since, o.Instance = f.Position(), f.Instance()
			f = open()
		}
	}
	for range 20 {
		w.write(t)
		harm(w.rand)
		for range w.rand.IntN(3) {
			if r.behind(w) != "" {
				step()
			}
		}
	}
	for r.behind(w) != "" {
		step()
	}
}

// TestSelector: PouchDB Server accepts selectors in the URL only.
func TestSelector(t *testing.T) {
	for name, url := range map[string]string{"fake": couchtest.NewFake(t).NewDB(t), "server": couchtest.NewDB(t)} {
		db, err := couchdb.Open(couchdb.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.BulkDocs(t.Context(), [][]byte{[]byte(`{"_id":"a","n":1}`), []byte(`{"_id":"b","n":2}`)}, true); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, follow(t, db, changes.Options{Filter: changes.Filter{Selector: []byte(`{"n":2}`)}})); got != "b" || err != io.EOF {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
		missing, err := couchdb.Open(couchdb.Config{URL: url + "-missing"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, follow(t, missing, changes.Options{Filter: changes.Filter{Selector: []byte(`{"n":2}`)}})); !errors.Is(err, couchdb.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPages reads a feed in pages, up to the first that is not full.
func TestPages(t *testing.T) {
	for name, url := range map[string]string{"fake": couchtest.NewFake(t).NewDB(t), "server": couchtest.NewDB(t)} {
		db, err := couchdb.Open(couchdb.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		var docs [][]byte
		for i := range 25 {
			docs = append(docs, fmt.Appendf(nil, `{"_id":"d%d","odd":%v}`, i, i%2 == 1))
		}
		if _, err := db.BulkDocs(t.Context(), docs, true); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			o              changes.Options
			rows, requests int64
		}{
			{changes.Options{PageRows: 10}, 25, 3},
			{changes.Options{PageRows: 5}, 25, 6}, // the last is empty
			{changes.Options{PageRows: 25}, 25, 2},
			{changes.Options{PageRows: 26}, 25, 1},
			{changes.Options{PageRows: 10, SeqInterval: 10, IncludeDocs: true}, 25, 3},
			{changes.Options{PageRows: 5, Filter: changes.Filter{DocIDs: []string{"d1", "d2", "d3"}}}, 3, 1},
		} {
			f := follow(t, db, c.o)
			got, err := read(t, f)
			if n := int64(len(strings.Fields(got))); err != io.EOF || n != c.rows || f.Stats().Requests != c.requests {
				t.Errorf("%s: %+v: %d rows in %d requests, %v; want %d in %d", name, c.o, n, f.Stats().Requests, err, c.rows, c.requests)
			}
		}
	}
}

// TestOptions follows with filters, and reports what is pending.
func TestOptions(t *testing.T) {
	fake := couchtest.NewFake(t)
	db, err := couchdb.Open(couchdb.Config{URL: fake.NewDB(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		fake.AddDoc(db.Name(), fmt.Sprintf("d%d", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	ids := func(o changes.Options) []string {
		got, err := read(t, follow(t, db, o))
		if err != io.EOF {
			t.Error(err)
		}
		names := strings.Fields(got)
		slices.Sort(names)
		return names
	}
	if got := ids(changes.Options{Filter: changes.Filter{DocIDs: []string{"d3", "d5", "nope"}}}); !slices.Equal(got, []string{"d3", "d5"}) {
		t.Errorf("%q", got)
	}
	if got := ids(changes.Options{Filter: changes.Filter{Selector: []byte(`{"n":7}`)}}); !slices.Equal(got, []string{"d7"}) {
		t.Errorf("%q", got)
	}
	pending, err := changes.Pending(t.Context(), db, changes.Options{})
	if err != nil || pending != 10 {
		t.Errorf("%d are pending, %v", pending, err)
	}
	f := follow(t, db, changes.Options{BatchRows: 4})
	b, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Confirm(b)
	if pending, err = changes.Pending(t.Context(), db, changes.Options{Since: f.Position()}); err != nil || pending != 6 {
		t.Errorf("%d are pending, %v", pending, err)
	}
	fake.Delete(db.Name())
	fake.Create(db.Name())
	f = follow(t, db, changes.Options{Since: f.Position(), Instance: f.Instance()})
	if got, err := read(t, f); got != "" || !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("got %q and %v", got, err)
	}
}
