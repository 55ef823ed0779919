package kinto_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/kinto"
)

// served calls test with a collection of a server whose handler is given, in fake time.
func served(t *testing.T, c kinto.Config, handler http.HandlerFunc, test func(t *testing.T, c *kinto.Collection, net *memnet.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New(t, handler)
		c.HTTP = net.Client()
		if c.URL == "" {
			c.URL = "http://kinto/v1/buckets/b/collections/c"
		}
		collection, err := kinto.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		test(t, collection, net)
	})
}

func list(t *testing.T, c *kinto.Collection, q kinto.Query) (rows []kinto.Row, page kinto.Page, err error) {
	page, err = c.List(t.Context(), q, func(r kinto.Row) error {
		r.Data = bytes.Clone(r.Data)
		rows = append(rows, r)
		return nil
	})
	return rows, page, err
}

func TestParseURL(t *testing.T) {
	for url, want := range map[string]kinto.Address{
		"https://h/v1":                                  {Root: "https://h/v1"},
		"https://u:p@h/v1/":                             {Root: "https://h/v1"},
		"https://h/x/v1/buckets/b":                      {Root: "https://h/x/v1", Bucket: "b"},
		"http://h/v1/buckets/b/collections":             {Root: "http://h/v1", Bucket: "b"},
		"http://h/v1/buckets/b/collections/c%2Fd":       {Root: "http://h/v1", Bucket: "b", Collection: "c/d"},
		"http://h/v1/buckets/b/collections/c/records/":  {Root: "http://h/v1", Bucket: "b", Collection: "c"},
		"ftp://h/v1":                                    {},
		"http://h/v1?x=1":                               {},
		"http://u:secret@h/v1/buckets/b/groups/g":       {},
		"http://u:secret@h/v1/buckets/b/collections/%x": {},
	} {
		got, err := kinto.ParseURL(url)
		if want == (kinto.Address{}) {
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, %v", url, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
}

// TestList: rows are exactly as the server sent them, and only the token in Next-Page is used.
func TestList(t *testing.T) {
	large := `{"text":"` + strings.Repeat("x", 5000) + `","last_modified":6,"id":"large"}`
	body := `{"x":[{}],"data":[{"n":1.50,"id":"a","last_modified":3},{"id":"b","last_modified":4,"deleted":true},` +
		`{"id":"c","last_modified":5,"deleted":true,"more":1},` + large + `],"more":1}`
	served(t, kinto.Config{MaxRecord: 1000}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"7"`)
		if r.Header.Get("If-None-Match") == `"7"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Next-Page", "https://elsewhere/v1/x?_limit=1&_token=to%2Bken")
		_, _ = io.WriteString(w, body)
	}, func(t *testing.T, c *kinto.Collection, net *memnet.Net) {
		rows, page, err := list(t, c, kinto.Query{Sort: kinto.OldestFirst, Tombstones: true, IDs: []string{"1", "b"}, Token: "x y", Limit: 5})
		if err != nil || page != (kinto.Page{Stamp: 7, Next: "to+ken"}) {
			t.Fatalf("%+v, %v", page, err)
		}
		want := []kinto.Row{
			{ID: "a", Stamp: 3, Data: []byte(`{"n":1.50,"id":"a","last_modified":3}`), Size: 37},
			{ID: "b", Stamp: 4, Deleted: true, Data: []byte(`{"id":"b","last_modified":4,"deleted":true}`), Size: 43},
			{ID: "c", Stamp: 5, Data: []byte(`{"id":"c","last_modified":5,"deleted":true,"more":1}`), Size: 52},
			{ID: "large", Stamp: 6, Size: int64(len(large))},
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Error(diff)
		}
		if got := net.Requests()[0]; got != "GET /v1/buckets/b/collections/c/records?_limit=5&_sort=last_modified%2Cid&_token=x+y&in_id=%221%22%2C%22b%22&min_last_modified=0" {
			t.Error(got)
		}
		if rows, page, err := list(t, c, kinto.Query{IfNoneMatch: 7}); len(rows) > 0 || !page.NotModified || err != nil {
			t.Errorf("%v, %+v, %v", rows, page, err)
		}
	})
}

// TestBrokenList: an incomplete list causes an error, which is retryable only if the list was cut off.
func TestBrokenList(t *testing.T) {
	for body, cut := range map[string]bool{
		`{"data":[{"id":"a","last_modified":1}`: true,
		`{"data":[`:                             true,
		``:                                      true,
		`{"data":[{"id":"a","last_modified":1},{"id":"b"`: true,
		`{}`:                             false,
		`<html>`:                         false,
		`{"data":[{"id":"a"}]}`:          false,
		`{"data":[{"last_modified":1}]}`: false,
		`{"data":[1]}`:                   false,
		`{"data":{}}`:                    false,
	} {
		served(t, kinto.Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) },
			func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
				_, _, err := list(t, c, kinto.Query{})
				if err == nil || kinto.Retryable(err) != cut || errors.Is(err, kinto.ErrMalformed) == cut {
					t.Errorf("%s: %v", body, err)
				}
			})
	}
}

// TestRetries: requests are repeated if that is safe, after the pause that the server asks its clients
// to make.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		status  int
		header  string
		call    func(ctx context.Context, c *kinto.Collection) error
		repeats bool
		pause   time.Duration
	}{
		{503, "Retry-After: 30", get, true, 30 * time.Second},
		{409, "Retry-After: 3", get, true, 3 * time.Second},
		{500, "", get, true, 0},
		{404, "", get, false, 0},
		{412, "", get, false, 0},
		{503, "Retry-After: 30", put, true, 30 * time.Second},
		{503, "", putIf, false, 0},
		{429, "", putIf, true, 0},
		{503, "", batch, false, 0},
	} {
		var times []time.Time
		served(t, kinto.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if times = append(times, time.Now()); len(times) > 1 {
				_, _ = io.WriteString(w, `{"data":{"id":"a","last_modified":1}}`)
				return
			}
			if name, value, ok := strings.Cut(test.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(test.status)
			fmt.Fprintf(w, `{"code":%d,"errno":7,"error":"No","message":"because"}`, test.status)
		}, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
			err := test.call(t.Context(), c)
			if (len(times) == 2) != test.repeats || test.repeats && times[1].Sub(times[0]) < test.pause {
				t.Errorf("%+v: requests at %v, %v", test, times, err)
			}
			var e *kinto.Error
			if !test.repeats && (!errors.As(err, &e) || e.Errno != 7 || !strings.Contains(err.Error(), "because")) {
				t.Errorf("%+v: %v", test, err)
			}
		})
	}
}

// TestErrorCutOff: a response with status 404 whose body is cut off does not say what is missing. The
// request is repeated, since CheckRead must tell a missing record from a missing collection.
func TestErrorCutOff(t *testing.T) {
	requests := 0
	served(t, kinto.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		const body = `{"code":404,"errno":110,"error":"Not Found","details":{"resource_name":"record"}}`
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusNotFound)
		if requests++; requests == 1 {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, body)
	}, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
		if err := c.CheckRead(t.Context()); err != nil || requests != 2 {
			t.Errorf("%d requests, %v", requests, err)
		}
	})
}

func get(ctx context.Context, c *kinto.Collection) error {
	_, err := c.Record(ctx, "a")
	return err
}

func put(ctx context.Context, c *kinto.Collection) error {
	_, err := c.Put(ctx, "a", []byte(`{}`), kinto.Condition{})
	return err
}

func putIf(ctx context.Context, c *kinto.Collection) error {
	_, err := c.Put(ctx, "a", []byte(`{}`), kinto.Condition{Absent: true})
	return err
}

func batch(ctx context.Context, c *kinto.Collection) error {
	_, err := c.Server().Batch(ctx, []kinto.BatchRequest{{Method: "DELETE", Path: c.Path("a")}})
	return err
}

// TestBackoffAndAlert: after a response with Backoff, all clients that share the limits wait; an alert
// is logged once.
func TestBackoffAndAlert(t *testing.T) {
	var log bytes.Buffer
	config := kinto.Config{Limits: new(kinto.Limits), Log: slog.New(slog.NewTextHandler(&log, nil))}
	served(t, config, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Backoff", "60")
		w.Header().Set("Alert", `{"code":"soft-eol","message":"soon","url":"https://x"}`)
		_, _ = io.WriteString(w, `{"data":{"id":"a","last_modified":1}}`)
	}, func(t *testing.T, c *kinto.Collection, net *memnet.Net) {
		config.HTTP, config.URL = net.Client(), "http://kinto/v1/buckets/b/collections/other"
		other, err := kinto.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := errors.Join(get(t.Context(), c), get(t.Context(), other)); err != nil || time.Since(begun) < time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if err := get(t.Context(), c); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "soft-eol"); got != 2 { // once for each client
			t.Errorf("log is %s", &log)
		}
	})
}

// TestCredentials: credentials are sent only to the server, and appear in no error.
func TestCredentials(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/v1/buckets/b/collections/c/records/moved":
			http.Redirect(w, r, "http://elsewhere/", http.StatusTemporaryRedirect)
		case r.Host == "cdn":
			fmt.Fprint(w, r.Header.Get("Authorization"))
		default:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"message":"%s:%s"}`, user, password)
		}
	}
	served(t, kinto.Config{URL: "http://u:hunter2@kinto/v1/buckets/b/collections/c"}, handler, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
		if err := get(t.Context(), c); !errors.Is(err, kinto.ErrUnauthorized) || !strings.Contains(err.Error(), "u:***") {
			t.Error(err)
		}
		if _, err := c.Record(t.Context(), "moved"); err == nil || !kinto.Permanent(err) || strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
		body, err := c.Server().Attachment(t.Context(), "http://cdn/files", "x")
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := io.ReadAll(body); len(sent) > 0 || err != nil {
			t.Errorf("another host gets %s, %v", sent, err)
		}
		body.Close()
	})
	token := kinto.Auth{Token: func(context.Context) (string, error) { return "t0ken\n", nil }}
	served(t, kinto.Config{Auth: token}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"data":{"id":%q,"last_modified":1}}`, r.Header.Get("Authorization"))
	}, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
		if row, err := c.Record(t.Context(), "a"); row.ID != "Bearer t0ken" || err != nil {
			t.Errorf("%+v, %v", row, err)
		}
	})
}

// TestBatch: each response inside a batch has an error of its own.
func TestBatch(t *testing.T) {
	served(t, kinto.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"responses":[{"status":201,"path":"/v1/x","headers":{"ETag":"\"5\""},"body":{"data":{}}},
			{"status":412,"path":"/v1/y","headers":{},"body":{"code":412,"errno":114,"message":"no","details":{"existing":{"id":"y"}}}}]}`)
	}, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
		got, err := c.Server().Batch(t.Context(), make([]kinto.BatchRequest, 2))
		if err != nil {
			t.Fatal(err)
		}
		var e *kinto.Error
		if got[0].Err != nil || !errors.As(got[1].Err, &e) || !errors.Is(e, kinto.ErrPreconditionFailed) || string(e.Existing()) != `{"id":"y"}` {
			t.Errorf("%+v", got)
		}
		if _, err := c.Server().Batch(t.Context(), make([]kinto.BatchRequest, 3)); !errors.Is(err, kinto.ErrMalformed) {
			t.Error(err)
		}
	})
}

// TestStalled: a response that does not begin, or stalls, is aborted after a timeout.
func TestStalled(t *testing.T) {
	served(t, kinto.Config{Attempts: 1}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/records") {
			_, _ = io.WriteString(w, `{"data":[`)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}, func(t *testing.T, c *kinto.Collection, _ *memnet.Net) {
		begun := time.Now()
		if err := get(t.Context(), c); !kinto.Retryable(err) || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		begun = time.Now()
		if _, _, err := list(t, c, kinto.Query{}); !kinto.Retryable(err) || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
