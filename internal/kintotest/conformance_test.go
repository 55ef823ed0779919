package kintotest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestConformance sends the same requests to the real server and the fake. Where the transactions of
// PostgreSQL matter, the backends of the real server differ, and the fake behaves like PostgreSQL.
func TestConformance(t *testing.T) {
	t.Parallel()
	fake := kintotest.NewFake(t)
	fake.Page = 4
	for name, collection := range map[string]string{
		"fake":       fake.NewCollection(t),
		"memory":     kintotest.StartOwn(t, kintotest.Memory, "paginate_by=4").NewCollection(t),
		"postgresql": kintotest.StartOwn(t, kintotest.PostgreSQL, "paginate_by=4").NewCollection(t),
	} {
		t.Run(name, func(t *testing.T) {
			for test, run := range map[string]func(*testing.T, client){
				"records": records, "lists": lists, "filters": filters, "conditions": conditions, "batches": batches, "past": past, "containers": containers,
			} {
				t.Run(test, func(t *testing.T) {
					c := client{t, collection + "-" + test, name}
					kintotest.Send(t, http.MethodPut, c.url, "")
					run(t, c)
				})
			}
		})
	}
}

// A client makes requests for a collection and for what is in it.
type client struct {
	t       *testing.T
	url     string
	backend string
}

// ask makes a request for a path below the collection, and checks the status. It returns the body, without
// stamps, as compact JSON: the member "data", or an error without its texts.
func (c client) ask(status int, method, path, body string, header ...string) (string, http.Header) {
	c.t.Helper()
	response, answer := kintotest.Try(c.t, method, c.url+path, body, header...)
	if response.StatusCode != status {
		c.t.Errorf("%s %s: %s, want %d: %s", method, path, response.Status, status, answer)
	}
	return plain(c.t, answer), response.Header
}

// plain returns the part of a body that is the same on all servers.
func plain(t *testing.T, answer string) string {
	if answer == "" {
		return ""
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	for _, name := range []string{"permissions", "message", "error", "headers"} {
		delete(v, name)
	}
	strip(v)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// strip removes stamps.
func strip(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			strip(e)
		}
	case map[string]any:
		delete(v, "last_modified")
		delete(v, "description")
		for _, e := range v {
			strip(e)
		}
	}
}

// is makes a request and checks the body, as returned by ask, in addition to the status.
func (c client) is(want string, status int, method, path, body string, header ...string) http.Header {
	c.t.Helper()
	got, h := c.ask(status, method, path, body, header...)
	if got != want {
		c.t.Errorf("%s %s %s:\n got %s\nwant %s", method, path, body, got, want)
	}
	return h
}

func records(_ *testing.T, c client) {
	c.is(`{"data":{"id":"a","n":1}}`, 201, "PUT", "/records/a", `{"data":{"n":1}}`)
	c.is(`{"data":{"b":[1.1,1.2345678901234568e+22],"id":"a"}}`, 200, "PUT", "/records/a", `{"data":{"id":"a","last_modified":"x","b":[1.10,12345678901234567890123]}}`)
	c.is(`{"data":{"b":2,"c":3,"id":"a"}}`, 200, "PATCH", "/records/a", `{"data":{"b":2,"c":3}}`)
	c.is(`{"data":{"b":2,"id":"a"}}`, 200, "PATCH", "/records/a", `{"data":{"c":null}}`, "Content-Type", "application/merge-patch+json")
	c.is(`{"data":{"b":2,"id":"a"}}`, 200, "POST", "/records", `{"data":{"id":"a","other":1}}`)
	c.ask(400, "PUT", "/records/a", `{"data":{"id":"b"}}`)
	c.ask(400, "PUT", "/records/a", `{"data":[1]}`)
	c.ask(400, "PUT", "/records/a", `{"data":{"x":1e400}}`)
	c.ask(400, "PUT", "/records/a", `{"data"`)
	for _, id := range []string{"a.b", "-a", "_a", "a%3Ab", "%C3%A4"} {
		c.ask(400, "PUT", "/records/"+id, `{"data":{}}`)
	}
	c.ask(404, "PUT", "/records/a%2Fb", `{"data":{}}`)
	c.ask(201, "PUT", "/records/"+strings.Repeat("x", 255), `{"data":{}}`)
	c.is(`{"data":{"deleted":true,"id":"a"}}`, 200, "DELETE", "/records/a", "")
	c.is(`{"code":404,"details":{"id":"a","resource_name":"record"},"errno":110}`, 404, "DELETE", "/records/a", "")
	c.is(`{"code":404,"details":{"id":"a","resource_name":"record"},"errno":110}`, 404, "GET", "/records/a", "")
	c.is(`{"data":{"a":{"b":"\u003cé"},"id":"a"}}`, 201, "PUT", "/records/a", `{"data":{"a":{"b":"<é"}}}`)
	c.ask(200, "PUT", "/records/a", `{"data":{"x":"\\u0000"}}`)
	if c.backend != "memory" {
		c.ask(503, "PUT", "/records/a", `{"data":{"x":"\u0000"}}`)
	}
}

// all returns the ids on each page of a list. The ids of tombstones are preceded by a minus.
func (c client) all(query string) (ids [][]string) {
	c.t.Helper()
	next := c.url + "/records?" + query
	for next != "" {
		response, answer := kintotest.Try(c.t, http.MethodGet, next, "")
		var page struct {
			Data []struct {
				ID      string `json:"id"`
				Deleted bool   `json:"deleted"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(answer), &page); err != nil || response.StatusCode != http.StatusOK {
			c.t.Fatalf("%s: %s: %s", next, response.Status, answer)
		}
		var some []string
		for _, r := range page.Data {
			if r.Deleted {
				r.ID = "-" + r.ID
			}
			some = append(some, r.ID)
		}
		ids = append(ids, some)
		next = response.Header.Get("Next-Page")
	}
	return ids
}

// lists tests the lists of the records a1 to a9, after a2 was deleted and a3 was changed.
func lists(t *testing.T, c client) {
	for i := 1; i <= 9; i++ {
		c.ask(201, "PUT", fmt.Sprintf("/records/a%d", i), fmt.Sprintf(`{"data":{"n":%d}}`, i))
	}
	c.ask(200, "DELETE", "/records/a2", "")
	_, h := c.ask(200, "PUT", "/records/a3", `{"data":{"n":3}}`)
	oldest := [][]string{{"a1", "a4", "a5", "a6"}, {"a7", "a8", "a9", "-a2"}, {"a3"}}
	for query, want := range map[string][][]string{
		"_sort=last_modified,id&min_last_modified=0": oldest,
		"_sort=last_modified,id&_since=0":            oldest,
		"_sort=last_modified&gt_last_modified=0":     oldest,
		"_sort=last_modified,id":                     {{"a1", "a4", "a5", "a6"}, {"a7", "a8", "a9", "a3"}},
		"":                                           {{"a3", "a9", "a8", "a7"}, {"a6", "a5", "a4", "a1"}},
		"_sort=-last_modified,-id&_limit=3&max_last_modified=" + stamp(h): {{"a3", "-a2", "a9"}, {"a8", "a7", "a6"}, {"a5", "a4", "a1"}},
		"_before=" + stamp(h) + "&_sort=-last_modified":                   {{"-a2", "a9", "a8", "a7"}, {"a6", "a5", "a4", "a1"}},
		"min_last_modified=" + stamp(h):                                   {{"a3"}},
		"_since=" + url.QueryEscape(`"`+stamp(h)+`"`):                     {nil},
		"_sort=id&_limit=100":                                             {{"a1", "a3", "a4", "a5"}, {"a6", "a7", "a8", "a9"}},
	} {
		if diff := cmp.Diff(want, c.all(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	h = c.is("", 200, "HEAD", "/records", "")
	if h.Get("Total-Objects") != "8" || h.Get("Total-Records") != "8" {
		t.Errorf("HEAD: %v", h)
	}
	c.ask(400, "GET", "/records?_since=abc", "")
	c.ask(400, "GET", fmt.Sprintf("/records?_since=%d", time.Now().Add(48*time.Hour).UnixMilli()), "")
	if _, h := c.ask(200, "GET", "/records?_to=5", ""); !strings.Contains(h.Get("Alert"), "soft-eol") {
		t.Errorf("_to: %v", h)
	}
	deleted, _ := c.ask(200, "DELETE", "/records", "")
	if n := strings.Count(deleted, `"deleted"`); n != 4 {
		t.Errorf("DELETE of the list: %s", deleted)
	}
	if ids := slices.Concat(c.all("_sort=last_modified")...); len(ids) != 4 {
		t.Errorf("after DELETE of the list: %v", ids)
	}
}

// stamp returns the stamp in the header of a response.
func stamp(h http.Header) string { return strings.Trim(h.Get("ETag"), `"`) }

func filters(_ *testing.T, c client) {
	for _, id := range []string{"a", "b", "1"} {
		c.ask(201, "PUT", "/records/"+id, `{"data":{"lang":"`+id+`","n":{"x":1,"y":2}}}`)
	}
	c.ask(201, "PUT", "/records/d", `{"data":{"deleted":true}}`)
	c.is(`{"data":[{"id":"a"},{"id":"1"}]}`, 200, "GET", "/records?_sort=last_modified&_fields=id&in_id="+url.QueryEscape(`"a","1","none"`), "")
	c.is(`{"data":[{"id":"b","n":{"x":1}}]}`, 200, "GET", "/records?_fields=n.x&lang=b", "")
	c.is(`{"data":[{"id":"b","n":{"x":1,"y":2}}]}`, 200, "GET", "/records?_fields=n.x,n.y&lang=b", "")
	c.is(`{"data":[{"deleted":true,"id":"d"}]}`, 200, "GET", "/records?_since=0&_limit=1", "")
	c.is(`{"data":{"deleted":true,"id":"d"}}`, 200, "GET", "/records/d", "")
	c.ask(200, "DELETE", "/records/1", "")
	c.is(`{"data":[{"deleted":true,"id":"d"}]}`, 200, "GET", "/records?deleted=true", "")
	c.is(`{"data":[{"id":"d"}]}`, 200, "GET", "/records?deleted=true&_fields=id", "")
}

func conditions(t *testing.T, c client) {
	_, h := c.ask(201, "PUT", "/records/a", `{"data":{"n":1}}`, "If-None-Match", "*")
	was := h.Get("ETag")
	c.is(`{"code":412,"details":{"existing":{"id":"a","n":1}},"errno":114}`, 412, "PUT", "/records/a", `{"data":{"n":2}}`, "If-None-Match", "*")
	_, h = c.ask(200, "PUT", "/records/a", `{"data":{"n":2}}`, "If-Match", was)
	if h.Get("ETag") == was {
		t.Errorf("the stamp is still %s", was)
	}
	c.ask(412, "PUT", "/records/a", `{"data":{"n":3}}`, "If-Match", was)
	c.ask(412, "PUT", "/records/none", `{"data":{"n":3}}`, "If-Match", was)
	c.ask(412, "DELETE", "/records/a", "", "If-Match", was)
	c.ask(404, "DELETE", "/records/none", "", "If-Match", was)
	now := h.Get("ETag")
	c.is("", 304, "GET", "/records", "", "If-None-Match", now)
	c.ask(200, "GET", "/records", "", "If-None-Match", was)
	c.ask(200, "GET", "/records", "", "If-Match", now)
	c.ask(412, "GET", "/records", "", "If-Match", was)
	c.is("", 304, "GET", "/records/a", "", "If-None-Match", now)
}

// batch sends a batch, and returns the statuses of the responses in it.
func (c client) batch(requests ...string) (statuses []int) {
	c.t.Helper()
	root, below, _ := strings.Cut(c.url, "/v1/")
	for i, r := range requests {
		requests[i] = strings.ReplaceAll(r, "RECORDS", "/"+below+"/records")
	}
	answer := kintotest.Send(c.t, http.MethodPost, root+"/v1/batch", `{"requests":[`+strings.Join(requests, ",")+`]}`)
	var got struct{ Responses []struct{ Status int } }
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		c.t.Fatal(err)
	}
	for _, r := range got.Responses {
		statuses = append(statuses, r.Status)
	}
	return statuses
}

func batches(t *testing.T, c client) {
	got := c.batch(
		`{"method":"PUT","path":"RECORDS/a","body":{"data":{"n":1}}}`,
		`{"method":"PUT","path":"RECORDS/a","body":{"data":{"n":2}},"headers":{"If-None-Match":"*"}}`,
		`{"method":"DELETE","path":"RECORDS/none"}`,
		`{"method":"PUT","path":"RECORDS/-","body":{"data":{}}}`,
		`{"path":"RECORDS/a"}`,
		`{"method":"PUT","path":"RECORDS/b","body":{"data":{"n":1}}}`)
	if diff := cmp.Diff([]int{201, 412, 404, 400, 200, 201}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if got := c.all("_sort=id"); !slices.Equal(got[0], []string{"a", "b"}) {
		t.Errorf("stored: %v", got)
	}
	many := slices.Repeat([]string{`{"path":"/"}`}, 26)
	response, answer := kintotest.Try(t, http.MethodPost, c.url[:strings.Index(c.url, "/buckets")]+"/batch", `{"requests":[`+strings.Join(many, ",")+`]}`)
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("26 requests: %s: %s", response.Status, answer)
	}
	if c.backend == "memory" {
		return
	}
	// A conflict undoes the requests before it, and a server error undoes the whole batch.
	hour := time.Now().Add(-time.Hour).UnixMilli()
	c.ask(201, "PUT", "/records/p", fmt.Sprintf(`{"data":{"last_modified":%d}}`, hour))
	got = c.batch(
		`{"method":"PUT","path":"RECORDS/k1","body":{"data":{}}}`,
		fmt.Sprintf(`{"method":"PUT","path":"RECORDS/k2","body":{"data":{"last_modified":%d}}}`, hour),
		`{"method":"PUT","path":"RECORDS/k3","body":{"data":{}}}`)
	if diff := cmp.Diff([]int{201, 409, 201}, got); diff != "" {
		t.Errorf("statuses with a conflict (-want +got):\n%s", diff)
	}
	c.ask(404, "GET", "/records/k1", "")
	c.ask(200, "GET", "/records/k3", "")
	root, below, _ := strings.Cut(c.url, "/v1/")
	response, answer = kintotest.Try(t, http.MethodPost, root+"/v1/batch", strings.ReplaceAll(`{"requests":[
		{"method":"PUT","path":"RECORDS/k4","body":{"data":{}}},
		{"method":"PUT","path":"RECORDS/k5","body":{"data":{"x":"\u0000"}}}]}`, "RECORDS", "/"+below+"/records"))
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a batch with NUL: %s: %s", response.Status, answer)
	}
	c.ask(404, "GET", "/records/k4", "")
}

// past: a record that is created with a stamp in the past does not change the stamp of the collection. A
// change of a record does, even if the client gives a stamp in the past.
func past(t *testing.T, c client) {
	c.ask(201, "PUT", "/records/a", `{"data":{}}`)
	_, before := c.ask(200, "GET", "/records?_limit=1", "")
	hour := time.Now().Add(-time.Hour).UnixMilli()
	body := fmt.Sprintf(`{"data":{"last_modified":%d}}`, hour)
	if _, h := c.ask(201, "PUT", "/records/b", body); stamp(h) != fmt.Sprint(hour) {
		t.Errorf("created with %d, got %s", hour, stamp(h))
	}
	c.is("", 304, "GET", "/records", "", "If-None-Match", before.Get("ETag"))
	if _, h := c.ask(200, "PUT", "/records/b", body); stamp(h) <= stamp(before) {
		t.Errorf("changed with %d, got %s after %s", hour, stamp(h), stamp(before))
	}
}

func containers(t *testing.T, c client) {
	name := c.url[strings.LastIndexByte(c.url, '/')+1:]
	c.is(`{"data":{"id":"`+name+`","x":1}}`, 200, "PATCH", "", `{"data":{"x":1}}`, "Content-Type", "application/merge-patch+json")
	c.is(`{"data":{"id":"`+name+`","x":1}}`, 200, "GET", "", "")
	c.ask(412, "PUT", "", `{"data":{}}`, "If-None-Match", "*")
	c.ask(201, "PUT", "/records/a", `{"data":{}}`)
	c.ask(200, "DELETE", "", "")
	c.is(`{"code":404,"details":{"id":"`+name+`","resource_name":"collection"},"errno":111}`, 404, "GET", "/records", "")
	c.is(`{"code":404,"details":{"id":"`+name+`","resource_name":"collection"},"errno":111}`, 404, "PUT", "/records/a", `{"data":{}}`)
	c.is(`{"code":404,"details":{"id":"`+name+`","resource_name":"collection"},"errno":110}`, 404, "GET", "", "")
	c.ask(201, "PUT", "", "")
	if got := c.all("_since=0"); len(got[0]) != 0 {
		t.Errorf("a new collection has %v", got)
	}
	root, _, _ := strings.Cut(c.url, "/buckets/")
	if got := kintotest.Send(t, http.MethodGet, root+"/", ""); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"batch_max_requests":25`) {
		t.Errorf("root: %s", got)
	}
	response, answer := kintotest.Try(t, http.MethodGet, root+"/buckets/none/collections/c/records", "")
	if response.StatusCode != http.StatusForbidden && c.backend != "fake" {
		t.Errorf("no bucket: %s: %s", response.Status, answer)
	}
}
