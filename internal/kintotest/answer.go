package kintotest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/httpfault"
)

func reply(status int, v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // a fake's own
	}
	return answer{status, http.Header{}, body}
}

// resource returns an answer that contains a bucket, collection or record.
func resource(status int, r *row) answer {
	return answer{status, stamps(r.stamp), []byte(`{"permissions":{"write":["` + owner + `"]},"data":` + string(r.text) + `}`)}
}

func failure(status, errno int, name, message string, details any) answer {
	v := map[string]any{"code": status, "errno": errno, "error": name}
	if message != "" {
		v["message"] = message
	}
	if details != nil {
		v["details"] = details
	}
	return reply(status, v)
}

func invalid(location, name, why string) answer {
	message := location + ": " + why
	if name != "" {
		message = name + " in " + message
	}
	return failure(http.StatusBadRequest, 107, "Invalid parameters", message,
		[]map[string]any{{"location": location, "name": name, "description": why}})
}

// missing returns the answer to a call for something in a bucket or collection that does not exist. If kind
// is empty, the path does not belong to the API.
func missing(kind, id string) answer {
	if kind == "" {
		return failure(http.StatusNotFound, 111, "Not Found", "The resource you are looking for could not be found.", nil)
	}
	return notFound(111, kind, id)
}

func notFound(errno int, kind, id string) answer {
	return failure(http.StatusNotFound, errno, "Not Found", "", map[string]string{"id": id, "resource_name": kind})
}

// stamps returns the header fields that give a stamp.
func stamps(stamp int64) http.Header {
	return http.Header{
		"Etag":          {`"` + strconv.FormatInt(stamp, 10) + `"`},
		"Last-Modified": {time.UnixMilli(stamp).UTC().Format(http.TimeFormat)},
	}
}

// preconditions checks the conditions in the header of a call against a stamp. If one fails, it returns the
// answer.
func preconditions(q *call, stamp int64, exists bool, header http.Header) (failed bool, a answer) {
	tag := `"` + strconv.FormatInt(stamp, 10) + `"`
	if match := q.header.Get("If-Match"); match != "" && (!exists || match != tag) {
		a = failure(http.StatusPreconditionFailed, 114, "Precondition Failed", "Resource was modified meanwhile", nil)
		a.header = header
		return true, a
	}
	if not := q.header.Get("If-None-Match"); not != "" && exists && not == tag && (q.method == http.MethodGet || q.method == http.MethodHead) {
		return true, answer{http.StatusNotModified, header, nil}
	}
	return false, a
}

// writePreconditions does the same against a record or another resource. If the resource does not exist, was
// is nil.
func writePreconditions(q *call, was *row) (failed bool, a answer) {
	stamp, header := int64(0), http.Header{}
	if was != nil {
		stamp, header = was.stamp, stamps(was.stamp)
	}
	if was == nil && q.method != http.MethodPut {
		return false, a // the caller answers with 404
	}
	failed, a = preconditions(q, stamp, was != nil, header)
	if !failed && was != nil && strings.TrimSpace(q.header.Get("If-None-Match")) == "*" && q.method == http.MethodPut {
		failed = true
		a = failure(http.StatusPreconditionFailed, 114, "Precondition Failed", "Resource was modified meanwhile", nil)
	}
	if failed && was != nil && a.status == http.StatusPreconditionFailed {
		a = failure(a.status, 114, "Precondition Failed", "Resource was modified meanwhile", map[string]json.RawMessage{"existing": was.text})
		a.header = header
	}
	return failed, a
}

// Refuse responds with an error, such as 503 201 "please retry later". header holds pairs of names and
// values.
func Refuse(status, errno int, message string, header ...string) httpfault.Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", "application/json")
		setAll(w, header)
		w.WriteHeader(status)
		_, _ = w.Write(failure(status, errno, http.StatusText(status), message, nil).body) // the client may have disconnected
	}
}

// WithHeader adds pairs of names and values, such as Backoff, to a healthy response.
func WithHeader(header ...string) httpfault.Fault {
	return func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		setAll(w, header)
		healthy(w, r)
	}
}

func setAll(w http.ResponseWriter, header []string) {
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
}

// Hold sends a value to the first channel when a request arrives. It handles the request once it receives a
// value from the second channel, or that channel is closed.
func Hold(arrived chan<- struct{}, release <-chan struct{}) httpfault.Fault {
	return func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		arrived <- struct{}{}
		select {
		case <-release:
			healthy(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// Lose carries out a request, but breaks the connection instead of sending the response.
func Lose() httpfault.Fault {
	return func(_ http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		healthy(discarded{}, r)
		panic(http.ErrAbortHandler)
	}
}

type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}
