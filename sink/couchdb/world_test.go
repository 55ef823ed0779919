package couchdb_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// A transport is a function that makes requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// impatient opens a sink that tries every request once, and every step the given number of times.
func impatient(ctx context.Context, url string, tries int, through transport) (consumer.Sink, error) {
	config := client.Config{URL: url, Attempts: 1}
	if through != nil {
		config.HTTP = &http.Client{Transport: through}
	}
	k, err := couchdb.OpenImpatient(ctx, config, tries)
	if err != nil {
		return nil, err // not a nil sink in an interface
	}
	return k, nil
}

// open opens a sink that the test closes.
func open(t *testing.T, url string, through transport) consumer.Sink {
	t.Helper()
	k, err := impatient(t.Context(), url, 1, through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func mustWrite(t *testing.T, k consumer.Sink, entities ...*feed.Entity) {
	t.Helper()
	if err := sinktest.Write(t.Context(), k, entities...); err != nil {
		t.Fatal(err)
	}
}

func entity(n int, op feed.Operation, key, contentType, body string) *feed.Entity {
	return &feed.Entity{
		ContentID:       fmt.Sprintf("<%d@example.com>", n),
		Operation:       op,
		LastModified:    time.Unix(1_700_000_000+int64(n), 0).UTC(),
		ContentType:     contentType,
		ContentLocation: feed.EncodeKey(key),
		Body:            []byte(body),
	}
}

func put(n int, key, body string) *feed.Entity {
	return entity(n, feed.Put, key, "application/json", body)
}

// fromCouch returns an entity with the text of a document, as the bridge publishes it.
func fromCouch(n int, contentType, text, id, rev string, deleted bool) *feed.Entity {
	op := feed.Put
	if deleted {
		op = feed.Delete
	}
	e := entity(n, op, id, contentType, text)
	e.ContentID = "<" + feed.EncodeKey(id) + "@" + rev + ">"
	e.Header = []feed.Field{{Name: "ETag", Value: `"` + rev + `"`}}
	return e
}

// docs holds revisions of all kinds: conflicts, tombstones, ancestors, attachments.
var docs = []string{
	`{"_id":"plain","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]},"n":1,"list":[1,2]}`,
	`{"_id":"grown","_rev":"3-cc","_revisions":{"start":3,"ids":["cc","bb","aa"]},"v":3}`,
	`{"_id":"conflict","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"v":"b"}`,
	`{"_id":"conflict","_rev":"2-cc","_revisions":{"start":2,"ids":["cc","aa"]},"v":"c"}`,
	`{"_id":"conflict","_rev":"3-dd","_revisions":{"start":3,"ids":["dd","ee","aa"]},"_deleted":true}`,
	`{"_id":"gone","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"_deleted":true,"why":"old"}`,
	`{"_id":"_design/d","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]},"views":{}}`,
	`{"_id":"an id/with ü & more?","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`,
	`{"_id":"attached","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"_attachments":{"a/b c":{"content_type":"text/plain","revpos":1,"data":"aGVsbG8="},"z":{"content_type":"image/png","revpos":2,"data":""}}}`,
}

// revisions returns docs as entities; if multi is set, those with attachments are in multipart/related.
func revisions(t testing.TB, first int, multi bool) (all []*feed.Entity) {
	t.Helper()
	for i, text := range docs {
		var d struct {
			ID          string `json:"_id"`
			Rev         string `json:"_rev"`
			Deleted     bool   `json:"_deleted"`
			Attachments map[string]struct {
				Type string `json:"content_type"`
				Data []byte `json:"data"`
			} `json:"_attachments"`
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		contentType := "application/json"
		if multi && d.Attachments != nil {
			contentType = `multipart/related; boundary="bound"`
			var parts string
			for _, name := range []string{"a/b c", "z"} {
				a := d.Attachments[name]
				stub := fmt.Sprintf(`"follows":true,"length":%d`, len(a.Data))
				if name == "z" {
					text = strings.Replace(text, `"data":""`, stub, 1)
				} else {
					text = strings.Replace(text, `"data":"`+base64Of(string(a.Data))+`"`, stub, 1)
				}
				parts += fmt.Sprintf("--bound\r\nContent-Disposition: attachment; filename=%q\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n", name, a.Type, len(a.Data), a.Data)
			}
			text = "--bound\r\nContent-Type: application/json\r\n\r\n" + text + "\r\n" + parts + "--bound--"
		}
		all = append(all, fromCouch(first+i, contentType, text, d.ID, d.Rev, d.Deleted))
	}
	return all
}

// fill stores docs in a database.
func fill(t testing.TB, db string) {
	t.Helper()
	couchtest.Send(t, http.MethodPost, db+"/_bulk_docs", fmt.Sprintf(`{"new_edits":false,"docs":[%s]}`, strings.Join(docs, ",")))
}

// checkEqual compares two databases.
func checkEqual(t *testing.T, want, got string) {
	t.Helper()
	differences, err := couchdiff.Compare(t.Context(), want, got)
	if err != nil {
		t.Fatal(err)
	}
	if len(differences) > 0 {
		t.Fatalf("databases differ:\n%s", strings.Join(differences, "\n"))
	}
}

// get decodes a document.
func get(t testing.TB, url string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(couchtest.Send(t, http.MethodGet, url, "")), v); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint is the sink's document in _local.
type checkpoint struct {
	Written  int64 `json:"docs_written"`
	Failures int64 `json:"doc_write_failures"`
	Refused  []struct {
		ID     string `json:"id"`
		Rev    string `json:"rev"`
		Reason string `json:"reason"`
	} `json:"refused"`
}

func numbers(t testing.TB, db string) (c checkpoint) {
	t.Helper()
	get(t, db+"/_local/feedctl-sink-feedctl", &c)
	return c
}

func compact(t testing.TB, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func names(doc map[string]any) string {
	text, _ := json.Marshal(slices.Sorted(maps.Keys(doc)))
	return string(text)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// read returns the entities that the documents of a database stand for, according to the package's
// documentation.
func read(db string) (records []sinktest.Record, err error) {
	var answer struct {
		Rows []struct {
			ID  string          `json:"id"`
			Doc json.RawMessage `json:"doc"`
		} `json:"rows"`
	}
	text, err := fetch(db + "/_all_docs?include_docs=true")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	for _, row := range answer.Rows {
		r, err := readDocument(db, row.ID, row.Doc)
		if err != nil {
			return nil, fmt.Errorf("document %q: %w", row.ID, err)
		}
		records = append(records, r)
	}
	return records, nil
}

func fetch(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

func readDocument(db, id string, text []byte) (r sinktest.Record, err error) {
	var doc struct {
		Feedctl struct {
			ContentID    string              `json:"contentId"`
			LastModified time.Time           `json:"lastModified"`
			ContentType  string              `json:"contentType"`
			Headers      map[string][]string `json:"headers"`
			Key          *string             `json:"key"`
			KeyBase64    []byte              `json:"keyBase64"`
			Body         string              `json:"body"`
		} `json:"feedctl"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return r, err
	}
	m := doc.Feedctl
	r = sinktest.Record{Key: id, ContentType: m.ContentType, ContentID: m.ContentID, LastModified: m.LastModified, Header: m.Headers}
	switch {
	case m.Key != nil:
		r.Key = *m.Key
	case m.KeyBase64 != nil:
		r.Key = string(m.KeyBase64)
	}
	if m.Body == "attachment" {
		r.Body, err = fetch(db + "/" + url.PathEscape(id) + "/body")
	} else {
		r.Body, err = ownMembers(text)
	}
	return r, err
}

// ownMembers returns the members of a document except CouchDB's and the sink's, in their order.
func ownMembers(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	body := []byte{'{'}
	for d.More() {
		before := d.InputOffset()
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		quoted := bytes.TrimLeft(text[before:d.InputOffset()], ", ")
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if s, _ := name.(string); s == "feedctl" || strings.HasPrefix(s, "_") {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(append(body, quoted...), ':'), value...)
	}
	return append(body, '}'), nil
}
