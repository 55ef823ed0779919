package changes_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// TestFollow follows feeds of all kinds, complete and broken.
func TestFollow(t *testing.T) {
	live := changes.Options{Feed: changes.Continuous}
	poll := changes.Options{Feed: changes.LongPoll}
	since := func(o changes.Options, seq string) changes.Options {
		o.Since = json.RawMessage(seq)
		return o
	}
	const n, c, l = "feed=normal", "feed=continuous", "feed=longpoll"
	tests := []struct {
		name     string
		options  changes.Options
		answers  []answer
		rows     string
		position string
		asked    string
		err      error // io.EOF, errNothing, or what it must match; nil: an error
	}{
		{name: "empty", answers: []answer{text(normal("", "s0"))}, position: `"s0"`, asked: n, err: io.EOF},
		{name: "to the end", answers: []answer{text(normal("a b c", "sc"))}, rows: "a b c", position: `"sc"`, asked: n, err: io.EOF},
		{name: "the end has another sequence", answers: []answer{text(normal("a b", "other"))}, rows: "a b", position: `"other"`, asked: n, err: io.EOF},
		{name: "from a string", options: since(changes.Options{}, `"s+/="`), answers: []answer{text(normal("", "s+/="))}, position: `"s+/="`, asked: n + "&since=s%2B%2F%3D", err: io.EOF},
		{name: "from a number", options: since(changes.Options{}, `12`), answers: []answer{text(normal("a", "sa"))}, rows: "a", position: `"sa"`, asked: n + "&since=12", err: io.EOF},
		{name: "from an array", options: since(changes.Options{}, `[1,"x"]`), answers: []answer{text(normal("", "s0"))}, position: `"s0"`, asked: n + "&since=%5B1%2C%22x%22%5D", err: io.EOF},
		{name: "numbers as PouchDB writes them", answers: []answer{text(`{"results":[{"id":"a","seq":1,"changes":[{"rev":"1-x"}]},{"changes":[{"rev":"1-y"}],"id":"b","seq":2,"deleted":true}],"last_seq":2}`)},
			rows: "a b", position: "2", asked: n, err: io.EOF},
		{name: "fewer sequences", options: changes.Options{SeqInterval: 2}, answers: []answer{cut(`{"results":[` + rows("-a b -c")), text(normal("-c d", "sd"))},
			rows: "a b c c d", position: `"sd"`, asked: n + "&seq_interval=2, " + n + "&seq_interval=2&since=sb", err: io.EOF},

		{name: "cut within a row", answers: []answer{cut(`{"results":[` + rows("a b") + `,{"seq":"s`), text(normal("c", "sc"))}, rows: "a b c", position: `"sc"`, asked: n + ", " + n + "&since=sb", err: io.EOF},
		{name: "cut before the end", answers: []answer{cut(`{"results":[` + rows("a b") + `],`), text(normal("", "sb"))}, rows: "a b", position: `"sb"`, asked: n + ", " + n + "&since=sb", err: io.EOF},
		{name: "complete without a last sequence", answers: []answer{text(`{"results":[` + rows("a") + `]}`), text(normal("", "s"))}, rows: "a", position: `"s"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "hangs", answers: []answer{hang(`{"results":[` + rows("a")), text(normal("b", "sb"))}, rows: "a b", position: `"sb"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "no answer", answers: []answer{hang(""), text(normal("b", "sb"))}, rows: "b", position: `"sb"`, asked: n + ", " + n, err: io.EOF},
		{name: "status 500 and 429", answers: []answer{refuse(500), refuse(429, "100"), refuse(503), text(normal("a", "sa"))}, rows: "a", position: `"sa"`, asked: n + ", " + n + ", " + n + ", " + n, err: io.EOF},
		{name: "error in the middle", answers: []answer{text(`{"results":[` + rows("a") + ",\n" + `{"error":"timeout","reason":"no"}` + "\n"), text(normal("b", "sb"))}, rows: "a b", position: `"sb"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "error at the end", answers: []answer{text(`{"results":[` + rows("a") + `],"error":"timeout","reason":"no"}`), text(normal("b", "sb"))}, rows: "a b", position: `"sb"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "not found", answers: []answer{refuse(404)}, asked: n, err: couchdb.ErrNotFound},
		{name: "unauthorized", answers: []answer{refuse(401)}, asked: n, err: couchdb.ErrUnauthorized},
		{name: "forbidden", answers: []answer{cut(`{"results":[` + rows("a")), refuse(403)}, rows: "a", position: `"sa"`, asked: n + ", " + n + "&since=sa", err: couchdb.ErrForbidden},
		{name: "bad position", options: since(live, `"x"`), answers: []answer{refuse(400)}, position: `"x"`, asked: c + "&since=x", err: nil},

		{name: "malformed row, damaged in transit", answers: []answer{text(normal("a !b c", "sc")), text(normal("b c", "sc"))}, rows: "a b c", position: `"sc"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "malformed row that stays", answers: []answer{text(normal("a !b c", "sc")), text(normal("!b c ?d e", "se"))},
			rows: "a (" + row("!b") + ") c (" + row("?d") + ") e", position: `"se"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "two malformed rows, both damaged in transit", options: poll, answers: []answer{text(normal("a !b", "sb")), text(normal("b", "sb")), text(normal("!c", "sc")), text(normal("c", "sc")), beat("{")},
			rows: "a b c", position: `"sc"`, asked: l + ", " + l + "&since=sa, " + l + "&since=sb, " + l + "&since=sb, " + l + "&since=sc", err: errNothing},
		{name: "malformed row at the end", answers: []answer{text(normal("a ?b", "sb")), text(normal("?b", "sb"))}, rows: "a (" + row("?b") + ")", position: `"sb"`, asked: n + ", " + n + "&since=sa", err: io.EOF},
		{name: "malformed row in a live feed", options: live, answers: []answer{beat(lines("a !b c")), beat(lines("!b c"))}, rows: "a (" + row("!b") + ") c", position: `"sc"`, asked: c + ", " + c + "&since=sa", err: errNothing},
		{name: "half a row in a live feed", options: live, answers: []answer{beat(lines("a") + `{"seq":"sb","id"` + "\n\n"), beat(`{"seq":"sb","id"` + "\n" + lines("c"))},
			rows: `a ({"seq":"sb","id") c`, position: `"sc"`, asked: c + ", " + c + "&since=sa", err: errNothing},

		{name: "live", options: live, answers: []answer{beat("\n\n" + lines("a b c") + "\n")}, rows: "a b c", position: `"sc"`, asked: c, err: errNothing},
		{name: "live, cut", options: live, answers: []answer{cut(lines("a b")), cut(lines("c") + `{"seq":`), beat(lines("d"))}, rows: "a b c d", position: `"sd"`, asked: c + ", " + c + "&since=sb, " + c + "&since=sc", err: errNothing},
		{name: "live, no heartbeats", options: live, answers: []answer{hang(lines("a")), beat(lines("b"))}, rows: "a b", position: `"sb"`, asked: c + ", " + c + "&since=sa", err: errNothing},
		{name: "live, ended by the server", options: live, answers: []answer{text(lines("a") + `{"last_seq":"sa2","pending":0}`), beat(lines("b"))}, rows: "a b", position: `"sb"`, asked: c + ", " + c + "&since=sa2", err: errNothing},
		{name: "live, deleted", options: live, answers: []answer{text(lines("a") + `{"last_seq":"sa2","pending":0}`), refuse(404)}, rows: "a", position: `"sa2"`, asked: c + ", " + c + "&since=sa2", err: couchdb.ErrNotFound},
		{name: "live, after many failures", options: live, answers: []answer{refuse(500), refuse(500), refuse(500), refuse(500), refuse(500), refuse(500), refuse(500), refuse(500), refuse(500), beat(lines("a"))},
			rows: "a", position: `"sa"`, asked: strings.Repeat(c+", ", 9) + c, err: errNothing},

		{name: "long poll", options: poll, answers: []answer{text(normal("a b", "sb")), beat(`{"results":[` + "\n"), beat("")}, rows: "a b", position: `"sb"`, asked: l + ", " + l + "&since=sb", err: errNothing},
		{name: "long polls", options: poll, answers: []answer{text(normal("a", "sa")), text("\n\n" + normal("b", "sb")), text("\n" + normal("", "sc")), beat("{")}, rows: "a b", position: `"sc"`,
			asked: l + ", " + l + "&since=sa, " + l + "&since=sb, " + l + "&since=sc", err: errNothing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, test.answers, func(t *testing.T, w *world) {
				f := follow(t, w.db, test.options)
				got, err := read(t, f)
				if err == nil || test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				want := []string{test.rows, test.position, test.asked}
				if diff := cmp.Diff(want, []string{got, string(f.Position()), strings.Join(w.queries(), ", ")}); diff != "" {
					t.Error(diff)
				}
				if f.Stats().Requests != int64(len(w.queries())) {
					t.Errorf("%+v", f.Stats())
				}
			})
		})
	}
}

// TestQuery checks the requests that options lead to.
func TestQuery(t *testing.T) {
	tests := []struct {
		options changes.Options
		want    string
	}{
		{changes.Options{}, "feed=normal"},
		{changes.Options{AllDocs: true}, "feed=normal&style=all_docs"},
		{changes.Options{IncludeDocs: true}, "feed=normal&include_docs=true"},
		{changes.Options{Filter: changes.Filter{Name: "app/mine", Query: map[string][]string{"who": {"a b"}}}}, "feed=normal&filter=app%2Fmine&who=a+b"},
		{changes.Options{Filter: changes.Filter{View: "app/view"}}, "feed=normal&filter=_view&view=app%2Fview"},
		{changes.Options{Filter: changes.Filter{DocIDs: []string{"a", `"ä`}}}, `feed=normal&filter=_doc_ids {"doc_ids":["a","\"ä"]}`},
		{changes.Options{Filter: changes.Filter{Selector: json.RawMessage(`{"n":{"$gt":1.10}}`)}}, `feed=normal&filter=_selector {"selector":{"n":{"$gt":1.10}}}`},
	}
	for _, test := range tests {
		inWorld(t, nil, func(t *testing.T, w *world) {
			if _, err := read(t, follow(t, w.db, test.options)); err != io.EOF {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{test.want}, w.queries()); diff != "" {
				t.Error(diff)
			}
			if r := w.net.Requests()[0]; !strings.Contains(r, "heartbeat=10000") {
				t.Error(r)
			}
		})
	}
	db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db"})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []changes.Options{
		{Filter: changes.Filter{Name: "a/b", View: "a/b"}}, {Filter: changes.Filter{DocIDs: []string{"a"}, Selector: json.RawMessage("{}")}}, {Filter: changes.Filter{Selector: json.RawMessage("{")}},
		{Since: json.RawMessage("x")}, {Since: json.RawMessage(`"now"`)}, {Feed: 3}, {BatchRows: -1}, {BatchBytes: -1}, {SeqInterval: -1},
		{Heartbeat: 2 * time.Minute}, {Heartbeat: -1},
	} {
		if _, err := changes.New(db, bad); err == nil || !strings.Contains(err.Error(), "http://couch.test/db") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestRecreated follows databases that were deleted and created again, which accept any position.
func TestRecreated(t *testing.T) {
	recreate := func(s *script) { s.instance = "18" }
	for _, kind := range []changes.Feed{changes.Normal, changes.Continuous, changes.LongPoll} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.answers = []answer{
				func(rw http.ResponseWriter, r *http.Request) {
					body := normal("a", "sa") // for a long poll
					switch kind {
					case changes.Continuous:
						body = lines("a") + `{"last_seq":"sa"}`
					case changes.Normal:
						body = `{"results":[` + rows("a")
					}
					w.mu.Lock()
					defer w.mu.Unlock()
					recreate(w.script)
					send(rw, body)
				},
				text(normal("x", "sx")),
			}
			// The instance is requested after the first response has begun: delay it.
			f := follow(t, w.db, changes.Options{Feed: kind, Since: json.RawMessage(`"s0"`), Instance: "17"})
			got, err := read(t, f)
			if got != "" || !errors.Is(err, changes.ErrRecreated) || !strings.Contains(err.Error(), "http://couch.test/db") {
				t.Errorf("%v: got %q and %v", kind, got, err)
			}
			if string(f.Position()) != `"s0"` || f.Instance() != "17" {
				t.Errorf("%v: position %s of %s", kind, f.Position(), f.Instance())
			}
		})
		// Between two responses.
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.answers = []answer{cut(lines("a")), cut(lines("x"))}
			if kind != changes.Continuous {
				w.answers = []answer{cut(`{"results":[` + rows("a")), text(normal("x", "sx"))}
			}
			f := follow(t, w.db, changes.Options{Feed: kind})
			b, err := next(t, f, time.Hour)
			if err != nil || len(b.Rows) != 1 || f.Instance() != "17" {
				t.Fatalf("%+v, %v", b, err)
			}
			w.mu.Lock()
			recreate(w.script)
			w.mu.Unlock()
			if got, err := read(t, f); got != "" || !errors.Is(err, changes.ErrRecreated) {
				t.Errorf("%v: got %q and %v", kind, got, err)
			}
		})
		// The database is replaced before the follower is made, which is noticed only if the old
		// instance is known.
		for instance, ok := range map[string]bool{"16": false, "17": true, "": true} {
			inWorld(t, []answer{text(normal("a", "sa"))}, func(t *testing.T, w *world) {
				f := follow(t, w.db, changes.Options{Instance: instance})
				if got, err := read(t, f); ok != (err == io.EOF) || ok != (got == "a") || !ok && !errors.Is(err, changes.ErrRecreated) {
					t.Errorf("%q: got %q and %v", instance, got, err)
				}
			})
		}
	}
	// Old servers send only a uuid, or nothing.
	for _, test := range []struct {
		stored, instance, uuid, want string
		ok                           bool
	}{
		{"", "0", "u", "server u/db", true}, {"server u/db", "0", "u", "server u/db", true}, {"server x/db", "0", "u", "server x/db", false},
		{"17", "0", "u", "server u/db", true}, {"server u/db", "18", "u", "18", true}, {"17", "0", "", "17", true},
		{"", "0", "403", "", true}, {"server u/db", "0", "403", "server u/db", true},
	} {
		inWorld(t, []answer{text(normal("a", "sa"))}, func(t *testing.T, w *world) {
			w.instance, w.uuid = test.instance, test.uuid
			f := follow(t, w.db, changes.Options{Instance: test.stored})
			_, err := read(t, f)
			if test.ok != (err == io.EOF) || test.ok == errors.Is(err, changes.ErrRecreated) || f.Instance() != test.want {
				t.Errorf("%+v: %q and %v", test, f.Instance(), err)
			}
		})
	}
}
