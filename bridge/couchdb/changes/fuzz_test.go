package changes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// A canned transport responds to the first two requests of a feed with the same bytes.
type canned struct {
	body  []byte
	bytes bool // one at a time
	asked int
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Request: r}
	if r.URL.Path == "/db/_changes" {
		c.asked++
	}
	if c.asked > 2 {
		resp.StatusCode = http.StatusNotFound
	}
	var body io.Reader = bytes.NewReader(c.body)
	if r.URL.Path == "/db" {
		body = strings.NewReader(`{"update_seq":1}`)
	} else if c.bytes {
		body = iotest.OneByteReader(body)
	}
	resp.Body = io.NopCloser(body)
	return resp, nil
}

// readAll follows a normal feed to its end, or until the canned responses are used up.
func readAll(t *testing.T, c *canned, config couchdb.Config, o changes.Options) (rows []string, err error) {
	t.Helper()
	config.URL, config.HTTP = "http://couch.test/db", &http.Client{Transport: c}
	db, err := couchdb.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	o.IncludeDocs = true
	f, err := changes.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	for {
		err := f.Follow(t.Context(), func(b *changes.Batch) error {
			defer b.Close()
			for _, r := range b.Rows {
				if r.Err != nil {
					rows = append(rows, "bad")
					continue
				}
				doc := "null"
				if r.Doc != nil {
					text, err := io.ReadAll(r.Doc.Reader())
					if err != nil || !json.Valid(text) {
						t.Errorf("document %q, %v", text, err)
					}
					doc = string(text)
				}
				rows = append(rows, fmt.Sprintf("%s %q %q %v %s", r.Seq, r.ID, r.Revs, r.Deleted, doc))
			}
			return nil
		})
		if err == nil || couchdb.Permanent(err) {
			return rows, err
		}
	}
}

// FuzzRows compares the rows of a feed with what encoding/json reads.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		`{"results":[` + "\n" + `{"seq":"1-x","id":"a","changes":[{"rev":"1-x"},{"rev":"2-y"}],"deleted":true,"doc":{"_id":"a","n":1.10}},` + "\r\n" +
			`{"seq":null,"id":"b","changes":[{"rev":"1-x"}],"doc":null}` + "\n],\n" + `"last_seq":"2-y","pending":0}` + "\n",
		`{"results":[],"last_seq":0}`, `{"last_seq":[1,"x"],"results":[{"changes":[{"rev":"1-x"}],"id":"ä\u00e4\"","seq":{"a":1}}]}`,
		`{"results":[{"seq":1,"id":"a","changes":[{"rev":"1-x"}]}`, `{"results":[{"seq":1},` + "\n" + `{"id":` + "\n],\"last_seq\":1}", `{"error":"x","reason":"y"}`,
	} {
		f.Add([]byte(seed), uint16(10))
	}
	f.Fuzz(func(t *testing.T, body []byte, whole uint16) {
		small := couchdb.Config{MaxWhole: int(whole) + 1, SpoolDir: t.TempDir()}
		got, err := readAll(t, &canned{body: body}, small, changes.Options{BatchBytes: 100})
		again, errAgain := readAll(t, &canned{body: body, bytes: true}, couchdb.Config{}, changes.Options{})
		if diff := cmp.Diff(again, got); diff != "" || (err == nil) != (errAgain == nil) {
			t.Errorf("%q: the result depends on the size of reads: %s, %v and %v", body, diff, err, errAgain)
		}
		type row struct {
			Seq     json.RawMessage
			ID      *string
			Changes []struct{ Rev *string }
			Deleted bool
			Doc     json.RawMessage
		}
		var want struct {
			Results []row
			LastSeq json.RawMessage `json:"last_seq"`
			Pending *int64
			Error   *string
			Reason  *string
		}
		valid := json.NewDecoder(bytes.NewReader(body)).Decode(&want) == nil && want.LastSeq != nil && want.Error == nil
		if !valid || err != nil || odd(body) {
			return
		}
		var rows []string
		for _, r := range want.Results {
			if r.ID == nil || len(r.Changes) == 0 {
				return // malformed, which other tests cover
			}
			var revs []string
			for _, c := range r.Changes {
				if c.Rev == nil {
					return
				}
				revs = append(revs, *c.Rev)
			}
			for _, text := range []*json.RawMessage{&r.Seq, &r.Doc} {
				if string(*text) == "null" {
					*text = nil
				}
			}
			doc := string(r.Doc)
			if r.Doc == nil {
				doc = "null"
			}
			rows = append(rows, fmt.Sprintf("%s %q %q %v %s", r.Seq, *r.ID, revs, r.Deleted, doc))
		}
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	})
}

// odd reports whether encoding/json may read a text differently: it ignores the case of names, uses the
// last of two members with the same name, and replaces invalid UTF-8.
func odd(body []byte) bool {
	if strings.ToValidUTF8(string(body), "") != string(body) || bytes.ContainsAny(body, "\\") || bytes.Count(body, []byte(`"last_seq"`)) > 1 {
		return true
	}
	for _, name := range []string{"results", "last_seq", "seq", "id", "changes", "rev", "deleted", "doc", "pending", "error", "reason"} {
		quoted := []byte(`"` + name + `"`)
		if bytes.Count(bytes.ToLower(body), quoted) != bytes.Count(body, quoted) {
			return true
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	return repeated(d)
}

// repeated reports whether the next value has an object with two members of the
// same name.
func repeated(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return true
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return false
	}
	names := make(map[string]bool)
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			text, ok := name.(string)
			if err != nil || !ok || names[text] {
				return true
			}
			names[text] = true
		}
		if repeated(d) {
			return true
		}
	}
	_, err = d.Token()
	return err != nil
}
