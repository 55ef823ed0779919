package couchtest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// A page is the response of a normal feed.
type page struct {
	Results []row
	LastSeq string `json:"last_seq"`
	Pending int
}

type row struct {
	Seq     string
	ID      string
	Deleted bool
}

func changes(t *testing.T, db, query string) (p page) {
	t.Helper()
	status, text := ask(t, "GET", db+"/_changes?"+query, "")
	if err := json.Unmarshal([]byte(text), &p); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %s: %v", status, text, err)
	}
	return p
}

func (p page) ids() (ids []string) {
	for _, r := range p.Results {
		ids = append(ids, r.ID)
	}
	return ids
}

// fill stores documents d00, d01 and so on.
func fill(fake *couchtest.Fake, db string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("d%02d", i))
		fake.AddDoc(db, ids[i], `{}`)
	}
	return ids
}

func TestSequences(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	ids := fill(fake, db, 40)
	one, two := changes(t, db, ""), changes(t, db, "")
	if one.LastSeq == two.LastSeq || slices.Equal(one.ids(), two.ids()) {
		t.Error("two requests for changes returned the same last_seq, or rows in the same order")
	}
	if got := slices.Sorted(slices.Values(one.ids())); !slices.Equal(got, ids) {
		t.Errorf("rows of %q", got)
	}
	for i, r := range one.Results { // a feed that starts at a sequence has exactly the rows after it
		rest := changes(t, db, "since="+r.Seq)
		want, got := slices.Sorted(slices.Values(one.ids()[i+1:])), slices.Sorted(slices.Values(rest.ids()))
		if !slices.Equal(got, want) {
			t.Fatalf("since row %d: %q, want %q", i, got, want)
		}
	}
	var walked []string
	for since, pending := "0", len(ids); pending > 0; {
		p := changes(t, db, "limit=7&since="+since)
		if walked, pending = append(walked, p.ids()...), pending-7; p.Pending != max(pending, 0) {
			t.Fatalf("%d pending, want %d", p.Pending, pending)
		}
		since = p.LastSeq
	}
	if slices.Sort(walked); !slices.Equal(walked, ids) {
		t.Errorf("read in pages, the rows are %q", walked)
	}
}

func TestRewind(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fill(fake, db, 20)
	first := changes(t, db, "limit=5")
	last := changes(t, db, "").LastSeq

	fake.Rewind(db, first.LastSeq)
	if got := changes(t, db, "since="+last); len(got.Results) != 15 {
		t.Errorf("after a rewind to the 5th of 20 rows there are %d, want 15", len(got.Results))
	}
	newer := changes(t, db, "").LastSeq
	if got := changes(t, db, "since="+newer); len(got.Results) != 0 {
		t.Errorf("a sequence from after the rewind replays %q", got.ids())
	}
	fake.Rewind(db, "")
	if got := changes(t, db, "since="+newer); len(got.Results) != 20 {
		t.Errorf("after a rewind to the beginning there are %d rows of 20", len(got.Results))
	}

	lines, stop := follow(t, db, "since=now")
	defer stop()
	fake.Rewind(db, first.LastSeq)
	for range 15 {
		next(t, lines)
	}
}

// follow opens a continuous feed.
func follow(t *testing.T, db, query string) (*bufio.Scanner, func()) {
	t.Helper()
	response, err := http.Get(db + "/_changes?feed=continuous&" + query)
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(response.Body), func() { response.Body.Close() }
}

// next returns the next line that is not a heartbeat.
func next(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if lines.Text() != "" {
			return lines.Text()
		}
	}
	t.Fatalf("the feed ended: %v", lines.Err())
	return ""
}

func TestDeletedAndCreatedAgain(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fill(fake, db, 3)
	last := changes(t, db, "").LastSeq
	_, before := ask(t, "GET", db, "")
	lines, stop := follow(t, db, "since=now&heartbeat=10")
	defer stop()

	fake.Delete(db)
	if line := next(t, lines); !strings.Contains(line, `"last_seq"`) {
		t.Errorf("the feed of a deleted database ends with %s", line)
	}
	if lines.Scan() && lines.Text() != "" || lines.Err() != nil {
		t.Errorf("after its end the feed has %q, %v", lines.Text(), lines.Err())
	}
	if status, _ := ask(t, "GET", db+"/_changes", ""); status != http.StatusNotFound {
		t.Errorf("a deleted database answers %d", status)
	}
	fake.Create(db)
	fake.AddDoc(db, "new", `{}`)
	if got := changes(t, db, "since="+last); !slices.Equal(got.ids(), []string{"new"}) {
		t.Errorf("a sequence of the old database leads to %q", got.ids())
	}
	_, after := ask(t, "GET", db, "")
	if startTime(t, before) == startTime(t, after) {
		t.Error("the new database has the old instance_start_time")
	}
	fake.OldStartTime = true
	if _, old := ask(t, "GET", db, ""); startTime(t, old) != "0" {
		t.Errorf("with OldStartTime, instance_start_time is not 0: %s", old)
	}
}

func startTime(t *testing.T, info string) string {
	t.Helper()
	var i struct {
		Time string `json:"instance_start_time"`
	}
	if err := json.Unmarshal([]byte(info), &i); err != nil || i.Time == "" {
		t.Fatalf("%s: %v", info, err)
	}
	return i.Time
}

func TestFaults(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fill(fake, db, 5)
	fake.Inject(1, couchtest.On("GET", "/_changes"), couchtest.TooManyRequests(7))
	response, err := http.Get(db + "/_changes")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "7" {
		t.Errorf("%s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	if got := changes(t, db, ""); len(got.Results) != 5 {
		t.Errorf("after the fault there are rows of %q", got.ids())
	}

	fake.Inject(2, couchtest.On("GET", "/_changes"), couchtest.Cut(100))
	for range 2 {
		response, err := http.Get(db + "/_changes")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if len(body) != 100 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a broken connection delivers %d bytes and %v", len(body), err)
		}
	}

	release := make(chan struct{})
	fake.Inject(0, couchtest.On("", "/_changes"), couchtest.Stall(100, release))
	response, err = http.Get(db + "/_changes")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, db+"/d00"); !strings.Contains(got, "d00") { // only the feed hangs
		t.Errorf("another request answers %s", got)
	}
	close(release)
	rest, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasSuffix(string(rest), "\"pending\":0}\n\n") {
		t.Errorf("when the feed continues, there is %s, %v", rest, err)
	}

	fake.Heal()
	fake.Inject(1, couchtest.On("GET", "/d01"), couchtest.Edit(func(body []byte) []byte { return body[:3] }))
	if got := mustGet(t, db+"/d01"); len(got) != 3 {
		t.Errorf("an edited answer is %q", got)
	}
	fake.Requests()
	mustGet(t, db+"/d02")
	if got := fake.Requests(); len(got) != 1 || !strings.HasSuffix(got[0], "/d02") {
		t.Errorf("requests %q", got)
	}
}

func mustGet(t *testing.T, url string) string {
	t.Helper()
	status, text := ask(t, "GET", url, "")
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", url, status, text)
	}
	return text
}

func TestOddRows(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fake.AddDoc(db, "", `{"empty":1}`)
	fake.AddDoc(db, "caf\xe9", `{"latin":1}`)
	fake.AddRow(db, `{"seq":SEQ,"id":`)
	fake.AddDoc(db, "gone", `{}`)
	fake.Purge(db, "gone")
	got := mustGet(t, db+"/_changes?include_docs=true")
	for _, want := range []string{`"id":"",`, "\"id\":\"caf\xe9\"", "A", `","id":`, `"_id":"",`, `"empty":1`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "gone") {
		t.Errorf("a purged document is in %s", got)
	}
	for _, bad := range []string{`{"_id":""}`, "{\"_id\":\"caf\xe9\"}", `{"_id":"_x"}`, `{"_id":"x","_y":1}`} {
		if status, text := ask(t, "POST", db+"/_bulk_docs", `{"docs":[`+bad+`]}`); status != http.StatusBadRequest {
			t.Errorf("%q is answered with %d %s", bad, status, text)
		}
	}
	fake.MaxDocument = 100
	if status, text := ask(t, "PUT", db+"/big", `{"x":"`+strings.Repeat("x", 100)+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large document is answered with %d %s", status, text)
	}
}

// TestLocal: CouchDB 2.0 and later do not compare the revisions of documents that do not replicate. The
// new number is one more than the given one.
func TestLocal(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"n":1}`, "0-1", 201},
		{`{"n":2,"_rev":"0-1"}`, "0-2", 201},
		{`{"n":3}`, "0-1", 201},
		{`{"n":4,"_rev":"0-7"}`, "0-8", 201},
		{`{"n":5,"_rev":"1-abc"}`, "bad_request", 400},
	} {
		if status, answer := ask(t, "PUT", db+"/_local/x", c.body); status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s, want %d and %s", c.body, status, answer, c.status, c.want)
		}
	}
	if _, answer := ask(t, http.MethodGet, db+"/_local/x", ""); !strings.Contains(answer, `"_rev":"0-8","n":4`) {
		t.Errorf("the document is %s", answer)
	}
}

func TestFiltersAndValidation(t *testing.T) {
	fake := couchtest.NewFake(t)
	fake.Filters["app/big"] = func(doc []byte, q url.Values) bool {
		return strings.Contains(string(doc), `"size":`+q.Get("size"))
	}
	fake.Validate = func(id string, doc []byte) error {
		if strings.Contains(string(doc), "forbidden") {
			return errors.New("not " + id)
		}
		return nil
	}
	db := fake.NewDB(t)
	_, got := ask(t, "POST", db+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"a","_rev":"1-a","size":1},{"_id":"b","_rev":"1-b","x":"forbidden"},{"_id":"c","_rev":"1-c","size":2}]}`)
	if want := `[{"id":"b","rev":"1-b","error":"forbidden","reason":"not b"}]`; got != want {
		t.Errorf("the answer is %s", got)
	}
	for query, want := range map[string][]string{
		"filter=app/big&size=2":            {"c"},
		"filter=_view&view=app/big&size=1": {"a"},
		"filter=_design":                   nil,
		`filter=_doc_ids&doc_ids=["c"]`:    {"c"},
	} {
		if p := changes(t, db, query); !slices.Equal(p.ids(), want) {
			t.Errorf("%s: rows of %q", query, p.ids())
		}
	}
	if status, text := ask(t, "POST", db+"/_changes?filter=_selector", `{"selector":{"size":1}}`); status != http.StatusOK || !strings.Contains(text, `"id":"a"`) || strings.Contains(text, `"id":"c"`) {
		t.Errorf("a selector gets %d %s", status, text)
	}
	if status, _ := ask(t, "GET", db+"/_changes?filter=app/none", ""); status != http.StatusNotFound {
		t.Errorf("an unknown filter is answered with %d", status)
	}
}

func TestAuthorization(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fake.Require(couchtest.Credentials{User: "u", Password: "p", Bearer: "token", ProxySecret: "secret"})
	status := func(set func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, db, nil)
		if err != nil {
			t.Fatal(err)
		}
		set(r)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	response, err := http.PostForm(fake.URL()+"/_session", url.Values{"name": {"u"}, "password": {"p"}})
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	response.Body.Close()
	cookie := response.Cookies()[0]
	withCookie := func(r *http.Request) { r.AddCookie(cookie) }
	for name, test := range map[string]struct {
		set  func(*http.Request)
		want int
	}{
		"none":         {func(*http.Request) {}, 401},
		"basic":        {func(r *http.Request) { r.SetBasicAuth("u", "p") }, 200},
		"wrong":        {func(r *http.Request) { r.SetBasicAuth("u", "x") }, 401},
		"cookie":       {withCookie, 200},
		"bearer":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer token") }, 200},
		"wrong bearer": {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		"proxy": {func(r *http.Request) {
			r.Header.Set("X-Auth-CouchDB-UserName", "u")
			r.Header.Set("X-Auth-CouchDB-Token", "3ada1bb17d6d1e3b90ab2ae5a5afa5d7ee42bb0fb7e01b5a4b0cb4ee1e3bc1e9")
		}, 401}, // the token was made with another secret
	} {
		if got := status(test.set); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	fake.ExpireSessions()
	if got := status(withCookie); got != http.StatusUnauthorized {
		t.Errorf("an expired session is answered with %d", got)
	}
}

// TestBulkGetMultipart reads parts as CouchDB writes them, with boundaries that begin with hyphens.
func TestBulkGetMultipart(t *testing.T) {
	db := couchtest.NewFake(t).NewDB(t)
	ask(t, "PUT", db+"/a", `{"_attachments":{"x":{"content_type":"image/png","data":"AAECAw=="}}}`)
	ask(t, "PUT", db+"/b", `{}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, db+"/_bulk_get?revs=true", strings.NewReader(`{"docs":[{"id":"a"},{"id":"b"},{"id":"c"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "multipart/mixed")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got []string
	for part := range allParts(t, response.Header.Get("Content-Type"), response.Body) {
		got = append(got, part)
	}
	if diff := cmp.Diff([]string{"multipart/related", "application/json", "image/png", "application/json", "application/json"}, got); diff != "" {
		t.Error(diff)
	}
}

// allParts yields the media types of all parts of a multipart body, including parts within parts.
func allParts(t *testing.T, contentType string, body io.Reader) func(func(string) bool) {
	return func(yield func(string) bool) {
		_, params, err := mime.ParseMediaType(contentType)
		if err != nil {
			t.Fatal(err)
		}
		for reader := multipart.NewReader(body, params["boundary"]); ; {
			part, err := reader.NextRawPart()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			mediaType, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
			if err != nil || !yield(mediaType) {
				return
			}
			if mediaType != "multipart/related" {
				continue
			}
			for inner := range allParts(t, part.Header.Get("Content-Type"), part) {
				if !yield(inner) {
					return
				}
			}
		}
	}
}
