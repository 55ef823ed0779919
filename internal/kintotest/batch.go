package kintotest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// batch handles POST /batch. On PostgreSQL, a batch is one transaction. If a request in it has the status
// 409, the transaction is rolled back and begun again: earlier requests are undone, but are still reported
// as successful. If the database fails in one request, the error of that request is the answer to the
// batch.
func (f *Fake) batch(q *call) answer {
	var body struct {
		Defaults struct {
			Method, Path string
			Headers      map[string]string
			Body         json.RawMessage
		}
		Requests []struct {
			Method, Path string
			Headers      map[string]string
			Body         json.RawMessage
		}
	}
	if q.method != http.MethodPost {
		return failure(http.StatusMethodNotAllowed, 115, "Method Not Allowed", "Method not allowed on this endpoint.", nil)
	}
	if err := json.Unmarshal(q.body, &body); err != nil {
		return invalid("body", "", "Invalid JSON")
	}
	if len(body.Requests) == 0 {
		return invalid("body", "requests", "Required")
	}
	if len(body.Requests) > f.Batch {
		return invalid("body", "requests", fmt.Sprintf("Number of requests is limited to %d", f.Batch))
	}
	type response struct {
		Path    string            `json:"path"`
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body,omitempty"`
	}
	var answers []response
	for _, part := range body.Requests {
		d := body.Defaults
		inner := &call{method: cmp.Or(part.Method, d.Method, http.MethodGet), header: http.Header{}, body: part.Body, root: q.root}
		if inner.body == nil {
			inner.body = d.Body
		}
		for _, headers := range []map[string]string{d.Headers, part.Headers} {
			for name, value := range headers {
				inner.header.Set(name, value)
			}
		}
		u, err := url.Parse(cmp.Or(part.Path, d.Path))
		if err != nil {
			return invalid("body", "requests", "Invalid path")
		}
		inner.path, inner.query = u.EscapedPath(), u.Query()
		if !strings.HasPrefix(inner.path, "/v1/") {
			inner.path = "/v1" + inner.path
		}
		a := f.handle(inner)
		switch {
		case a.status == http.StatusConflict:
			f.rollback()
		case a.status >= http.StatusInternalServerError:
			return a
		}
		headers := map[string]string{}
		for name, values := range a.header {
			headers[name] = values[0]
		}
		answers = append(answers, response{inner.path, a.status, headers, a.body})
	}
	return reply(http.StatusOK, map[string]any{"responses": answers})
}
