package couchdb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// TestRead reads all documents with all options.
func TestRead(t *testing.T) {
	eachServer(t, func(t *testing.T, db *couchdb.DB, pouch bool) {
		stored := sample(t, db)
		for _, way := range []couchdb.Attachments{couchdb.Stubs, couchdb.Inline, couchdb.Multipart} {
			for _, revs := range []bool{false, true} {
				o := couchdb.GetOptions{Revs: revs, Attachments: way}
				want := make(map[string]leaf)
				for rev, l := range stored {
					if !revs {
						l.Revisions = ""
					}
					if way == couchdb.Stubs && l.Attachments != nil {
						l.Attachments = map[string]string{"f": ""}
					}
					if pouch {
						l.Fields = strings.Replace(l.Fields, "123456789012345678901234567890", "1.2345678901234568e+29", 1)
					}
					want[rev] = l
				}
				var asked []couchdb.IDRev
				var order []leaf
				for _, rev := range slices.Sorted(maps.Keys(want)) {
					asked = append(asked, couchdb.IDRev{ID: want[rev].ID, Rev: rev}, couchdb.IDRev{ID: want[rev].ID, Rev: "7-dead"}, couchdb.IDRev{ID: "nope", Rev: "1-x"})
					order = append(order, want[rev], leaf{ID: want[rev].ID, Rev: "7-dead", Err: "404"}, leaf{ID: "nope", Rev: "1-x", Err: "404"})
				}
				if diff := cmp.Diff(order, leaves(t, db.BulkGet(t.Context(), asked, o))); diff != "" {
					t.Errorf("BulkGet %+v: %.2000s", o, diff)
				}
				got := leaves(t, db.OpenRevs(t.Context(), "conf", nil, o))
				slices.SortFunc(got, func(a, b leaf) int { return strings.Compare(a.Rev, b.Rev) })
				if diff := cmp.Diff([]leaf{want["2-b"], want["2-c"], want["3-d"]}, got); diff != "" {
					t.Errorf("OpenRevs %+v: %.2000s", o, diff)
				}
				got = leaves(t, db.OpenRevs(t.Context(), "large/ä+", []string{"9-dead", "1-g"}, o))
				slices.SortFunc(got, func(a, b leaf) int { return strings.Compare(a.Rev, b.Rev) })
				if diff := cmp.Diff([]leaf{want["1-g"], {ID: "large/ä+", Rev: "9-dead", Err: "404"}}, got); diff != "" {
					t.Errorf("OpenRevs %+v: %.2000s", o, diff)
				}
				if got := leaves(t, db.OpenRevs(t.Context(), "nope", nil, o)); len(got) != 1 || got[0].Err != "404" {
					t.Errorf("OpenRevs %+v of a missing document: %+v", o, got)
				}
			}
		}
	})
}

// TestLatest: instead of a revision that is no longer a leaf, its descendant is returned.
func TestLatest(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := openURL(t, fake.NewDB(t))
	store(t, db, `{"_id":"x","_rev":"1-a"}`, `{"_id":"x","_rev":"2-b","_revisions":{"start":2,"ids":["b","a"]}}`,
		`{"_id":"x","_rev":"2-c","_revisions":{"start":2,"ids":["c","a"]}}`)
	for _, way := range []couchdb.Attachments{couchdb.Stubs, couchdb.Multipart} {
		var revs []string
		for _, l := range leaves(t, db.BulkGet(t.Context(), []couchdb.IDRev{{ID: "x", Rev: "1-a"}}, couchdb.GetOptions{Latest: true, Attachments: way})) {
			revs = append(revs, l.Rev)
		}
		if slices.Sort(revs); !slices.Equal(revs, []string{"2-b", "2-c"}) {
			t.Errorf("%q", revs)
		}
	}
}

// TestNoBulkGet: documents are requested one by one from a server that does not have _bulk_get, but not from a server
// that refuses the request.
func TestNoBulkGet(t *testing.T) {
	refusals := map[string]struct {
		status       int
		code, reason string
		falls        bool
	}{
		"CouchDB 1":   {405, "method_not_allowed", "Only GET,HEAD allowed", true},
		"unknown":     {404, "not_found", "missing", true},
		"PouchDB":     {400, "bad_request", "bulkGet not supported by this version of PouchDB", true},
		"no database": {404, "not_found", "Database does not exist.", false},
		"bad request": {400, "bad_request", "invalid json", false},
		"forbidden":   {403, "forbidden", "no", false},
	}
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			fake := couchtest.NewFake(t)
			db := openURL(t, fake.NewDB(t))
			rev := fake.AddDoc(db.Name(), "a", `{"n":1}`)
			fake.Inject(0, couchtest.On("POST", "_bulk_get"), couchtest.Refuse(r.status, r.code, r.reason))
			var got []string
			var failed error
			for d, err := range db.BulkGet(t.Context(), []couchdb.IDRev{{ID: "a", Rev: rev}, {ID: "b", Rev: "1-x"}, {ID: "a"}}, couchdb.GetOptions{}) {
				if failed = err; err == nil {
					got = append(got, d.ID+" "+d.Rev)
				}
			}
			if r.falls != (failed == nil) {
				t.Error(failed)
			}
			if want := []string{"a " + rev, "b 1-x", "a " + rev}; r.falls && !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if !r.falls && len(fake.Requests()) != 1 {
				t.Error("asked again")
			}
		})
	}
}

// TestBulkGetOrder: documents that arrive in another order are yielded in the requested order, and missing documents
// are errors.
func TestBulkGetOrder(t *testing.T) {
	ok := func(id, rev string) string {
		return fmt.Sprintf(`{"id":%q,"docs":[{"ok":{"_id":%q,"_rev":%q}}]}`, id, id, rev)
	}
	tests := []struct {
		name, results, want string
		fails               bool
	}{
		{"in order", ok("a", "1-x") + "," + ok("b", "1-x") + "," + ok("a", "1-y"), "a 1-x, b 1-x, a 1-y", false},
		{"backwards", ok("a", "1-y") + "," + ok("b", "1-x") + "," + ok("a", "1-x"), "a 1-x, b 1-x, a 1-y", false},
		{"grouped", `{"id":"a","docs":[{"ok":{"_id":"a","_rev":"1-x"}},{"missing":"1-y"}]},` + ok("b", "1-x"), "a 1-x, b 1-x, a 1-y 404", false},
		{"error", ok("a", "1-x") + `,{"id":"b","docs":[{"error":"forbidden","reason":"no"}]},` + ok("a", "1-y"), "a 1-x, b 1-x 403, a 1-y", false},
		{"CouchDB's error", ok("a", "1-x") + `,{"id":"b","docs":[{"error":{"id":"b","rev":"1-x","error":"forbidden","reason":"no"}}]},` + ok("a", "1-y"), "a 1-x, b 1-x 403, a 1-y", false},
		{"one is missing", ok("b", "1-x") + "," + ok("a", "1-y"), "", true},
		{"the last is missing", ok("a", "1-x") + "," + ok("b", "1-x"), "a 1-x, b 1-x", true},
		{"one is another", ok("a", "1-x") + "," + ok("c", "1-x") + "," + ok("a", "1-y"), "a 1-x", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"results":[`+test.results+`]}`)
			}))
			defer server.Close()
			var got []string
			var failed error
			for d, err := range openURL(t, server.URL+"/db").BulkGet(t.Context(), []couchdb.IDRev{{ID: "a", Rev: "1-x"}, {ID: "b", Rev: "1-x"}, {ID: "a", Rev: "1-y"}}, couchdb.GetOptions{}) {
				if failed = err; err != nil {
					continue
				}
				l := readLeaf(t, d)
				got = append(got, strings.TrimSpace(l.ID+" "+l.Rev+" "+l.Err))
			}
			if strings.Join(got, ", ") != test.want || errors.Is(failed, couchdb.ErrMalformed) != test.fails {
				t.Errorf("got %q and %v, want %q", got, failed, test.want)
			}
		})
	}
}

// TestManyRevs reads more leaves than fit into a URL.
func TestManyRevs(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := openURL(t, fake.NewDB(t))
	var revs, docs []string
	for i := range 500 {
		revs = append(revs, fmt.Sprintf("1-%032x", i))
		docs = append(docs, fmt.Sprintf(`{"_id":"x","_rev":%q}`, revs[i]))
	}
	store(t, db, docs...)
	fake.Requests()
	var got []string
	for _, l := range leaves(t, db.OpenRevs(t.Context(), "x", revs, couchdb.GetOptions{})) {
		got = append(got, l.Rev)
	}
	if slices.Sort(got); !slices.Equal(got, revs) {
		t.Errorf("%d of %d revisions", len(got), len(revs))
	}
	for _, r := range fake.Requests() {
		if len(r) > 8<<10 {
			t.Errorf("URL of %d bytes", len(r))
		}
	}
}

// TestCutShort: a truncated response is a retryable error, wherever it ends, and the documents received before the
// end are correct.
func TestCutShort(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := openURL(t, fake.NewDB(t))
	want := sample(t, db)
	var asked []couchdb.IDRev
	for rev, l := range want {
		asked = append(asked, couchdb.IDRev{ID: l.ID, Rev: rev})
	}
	for _, way := range []couchdb.Attachments{couchdb.Inline, couchdb.Multipart} {
		for _, after := range []int{0, 1, 50, 100, 500, 1000, 5000, 20000, 200 << 10, 400 << 10, 400<<10 + 10000} {
			fake.Inject(1, couchtest.On("POST", "_bulk_get"), couchtest.Cut(after))
			var failed error
			n := 0
			for d, err := range db.BulkGet(t.Context(), asked, couchdb.GetOptions{Attachments: way, Revs: true}) {
				if err != nil {
					failed = err
					break
				}
				if d.Stream != nil {
					if _, failed = io.Copy(io.Discard, d.Stream); failed != nil {
						break
					}
				} else if d.Body.Close() != nil {
					t.Error("close")
				}
				n++
			}
			fake.Heal()
			if failed == nil || !couchdb.Retryable(failed) || n >= len(asked) {
				t.Errorf("%v, cut after %d bytes: %d documents, %v", way, after, n, failed)
			}
		}
	}
}

// TestStopReading: the caller may stop the iteration early.
func TestStopReading(t *testing.T) {
	eachServer(t, func(t *testing.T, db *couchdb.DB, _ bool) {
		sample(t, db)
		for _, way := range []couchdb.Attachments{couchdb.Stubs, couchdb.Multipart} {
			for d, err := range db.BulkGet(t.Context(), []couchdb.IDRev{{ID: "conf"}, {ID: "large/ä+"}, {ID: "plain"}}, couchdb.GetOptions{Attachments: way}) {
				must(t, err)
				must(t, d.Body.Close())
				break
			}
			for range db.OpenRevs(t.Context(), "conf", nil, couchdb.GetOptions{Attachments: way}) {
				break
			}
		}
	})
}

// TestConnections: consecutive requests use the same connection.
func TestConnections(t *testing.T) {
	eachServer(t, func(t *testing.T, db *couchdb.DB, _ bool) {
		sample(t, db)
		asked := []couchdb.IDRev{{ID: "conf"}, {ID: "small"}, {ID: "large/ä+"}}
		dials := 0
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		counted, err := couchdb.Open(couchdb.Config{URL: db.URL(), HTTP: &http.Client{Transport: transport}, MaxWhole: 1 << 10, SpoolDir: t.TempDir()})
		must(t, err)
		for range 3 {
			for _, way := range []couchdb.Attachments{couchdb.Stubs, couchdb.Inline, couchdb.Multipart} {
				leaves(t, counted.BulkGet(t.Context(), asked, couchdb.GetOptions{Attachments: way}))
				leaves(t, counted.OpenRevs(t.Context(), "conf", nil, couchdb.GetOptions{Attachments: way}))
				leaves(t, counted.OpenRevs(t.Context(), "nope", nil, couchdb.GetOptions{Attachments: way}))
			}
			_, err := counted.Info(t.Context())
			must(t, err)
			_, err = counted.RevsDiff(t.Context(), map[string][]string{"conf": {"9-x"}})
			must(t, err)
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
	})
}

// TestPutMultipart writes documents with attachments back exactly as they were read.
func TestPutMultipart(t *testing.T) {
	fake := couchtest.NewFake(t)
	source, target := openURL(t, fake.NewDB(t)), openURL(t, fake.NewDB(t))
	want := sample(t, source)
	o := couchdb.GetOptions{Revs: true, Attachments: couchdb.Multipart}
	for rev, l := range want {
		for d, err := range source.BulkGet(t.Context(), []couchdb.IDRev{{ID: l.ID, Rev: rev}}, o) {
			must(t, err)
			p := couchdb.Put{ID: d.ID, ContentType: d.ContentType, Length: -1, Open: func() (io.Reader, error) { return d.Stream, nil }}
			if d.Stream == nil {
				p.Length, p.Open = d.Body.Size(), func() (io.Reader, error) { return d.Body.Reader(), nil }
			}
			got, err := target.Put(t.Context(), p)
			must(t, err)
			if got != rev {
				t.Errorf("stored %s of %s as %s", rev, l.ID, got)
			}
		}
		if diff := cmp.Diff([]leaf{l}, leaves(t, target.BulkGet(t.Context(), []couchdb.IDRev{{ID: l.ID, Rev: rev}}, o))); diff != "" {
			t.Errorf("%.2000s", diff)
		}
	}
}
