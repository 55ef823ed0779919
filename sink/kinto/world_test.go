package kinto_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// A transport is a function that makes requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// impatient opens a sink that makes each request at most tries times.
func impatient(ctx context.Context, url string, tries int, through transport) (*kinto.Sink, error) {
	config := client.Config{URL: url}
	if through != nil {
		config.HTTP = &http.Client{Transport: through}
	}
	late := time.Duration(0)
	if through == nil { // nothing is lost on the way
		late = time.Second
	}
	return kinto.OpenImpatient(ctx, config, "", tries, late)
}

// open opens a sink that the test closes.
func open(t *testing.T, url string, tries int, through transport) *kinto.Sink {
	t.Helper()
	k, err := impatient(t.Context(), url, tries, through)
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
		ContentID: fmt.Sprintf("<%d@example.com>", n), Operation: op, LastModified: time.Unix(1_700_000_000+int64(n), 0).UTC(),
		ContentType: contentType, ContentLocation: feed.EncodeKey(key), Body: []byte(body),
	}
}

func put(n int, key, body string) *feed.Entity {
	return entity(n, feed.Put, key, "application/json", body)
}

func remove(n int, key string) *feed.Entity {
	return entity(n, feed.Delete, key, "application/json", "")
}

// fromBridge returns an entity as the bridge publishes a record.
func fromBridge(n int, id, members string, stamp int64) *feed.Entity {
	e := put(n, id, fmt.Sprintf(`{%s"id":%q,"last_modified":%d}`, members, id, stamp))
	e.Header = []feed.Field{{Name: "ETag", Value: client.ETag(stamp)}}
	return e
}

// listing returns the records of a collection by id, as the server has them, except for the stamp.
func listing(ctx context.Context, url string) (map[string]json.RawMessage, error) {
	c, err := client.Open(client.Config{URL: url, MaxRecord: 64 << 20})
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	q := client.Query{Sort: client.OldestFirst}
	for {
		page, err := c.List(ctx, q, func(row client.Row) error {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(row.Data, &members); err != nil {
				return err
			}
			delete(members, "last_modified")
			text, err := json.Marshal(members)
			all[row.ID] = text
			return err
		})
		if err != nil || page.Next == "" {
			return all, err
		}
		q.Token = page.Next
	}
}

// checkListing compares the bodies of all records: without the member feedctl, compact, and with
// members in order.
func checkListing(t *testing.T, url string, want map[string]string) {
	t.Helper()
	all, err := listing(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for id, text := range all {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		delete(members, "feedctl")
		delete(members, "id")
		plain, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		got[id] = string(plain)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// read returns the records of a collection as the tests of sinks compare them.
func read(url string) ([]sinktest.Record, error) {
	all, err := listing(context.Background(), url)
	if err != nil {
		return nil, err
	}
	var records []sinktest.Record
	for id, text := range all {
		var r struct {
			Meta *struct {
				ContentID    string              `json:"contentId"`
				LastModified time.Time           `json:"lastModified"`
				ContentType  string              `json:"contentType"`
				Headers      map[string][]string `json:"headers"`
				Key          *string             `json:"key"`
				KeyBase64    []byte              `json:"keyBase64"`
				Body         *string             `json:"body"`
				BodyBase64   *[]byte             `json:"bodyBase64"`
			} `json:"feedctl"`
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, err
		}
		m := r.Meta
		if m == nil {
			return nil, fmt.Errorf("record %s is not the sink's: %s", id, text)
		}
		record := sinktest.Record{Key: id, ContentID: m.ContentID, LastModified: m.LastModified, ContentType: m.ContentType, Header: m.Headers}
		switch {
		case m.Key != nil:
			record.Key = *m.Key
		case m.KeyBase64 != nil:
			record.Key = string(m.KeyBase64)
		}
		if kinto.RecordID(record.Key) != id {
			return nil, fmt.Errorf("record %s has the key %q", id, record.Key)
		}
		switch {
		case m.Body != nil:
			record.Body = []byte(*m.Body)
		case m.BodyBase64 != nil:
			record.Body = *m.BodyBase64
		default:
			var members map[string]json.RawMessage
			if err := json.Unmarshal(text, &members); err != nil {
				return nil, err
			}
			delete(members, "id")
			delete(members, "feedctl")
			var body bytes.Buffer
			e := json.NewEncoder(&body)
			e.SetEscapeHTML(false)
			if err := e.Encode(members); err != nil {
				return nil, err
			}
			record.Body = []byte(strings.TrimSuffix(body.String(), "\n"))
		}
		records = append(records, record)
	}
	return records, nil
}

// bodyHas reports whether the body of a request contains a string, and leaves the body to be read.
func bodyHas(r *http.Request, text string) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(text))
}

// conflicting makes the second request of a batch set a stamp in the past that another record already has.
func conflicting(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	body = bytes.Replace(body, []byte(`{"n":2,`), []byte(`{"last_modified":1700000000000,"n":2,`), 1)
	r.Body = io.NopCloser(bytes.NewReader(body))
	healthy(w, r)
}
