package kintotest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/httpfault"
)

// A Fake is a server that responds like Kinto 26.5 on PostgreSQL, keeps everything in
// memory, and injects faults on demand. Every user has all rights. The fields must not be changed
// after the first request.
type Fake struct {
	httpfault.Faults
	// Page is the maximum number of rows on a page, like the setting paginate_by. Zero means 10,000.
	Page int
	// Batch is the maximum number of requests in a batch, like the setting batch_max_requests.
	Batch int
	// MaxBody is the maximum size of the body of a request, in bytes, like the limit of a proxy. Zero
	// means no limit.
	MaxBody int
	// Changes makes the server offer the changeset of monitor/changes.
	Changes bool

	server *httptest.Server

	mu       sync.Mutex
	buckets  map[string]*bucket
	stamp    int64 // the newest stamp of a bucket or collection
	undo     []func()
	requests []string
}

// NewFake starts a fake that is closed when the test ends.
func NewFake(t testing.TB) *Fake {
	f := LaunchFake()
	t.Cleanup(f.Close)
	return f
}

// LaunchFake starts a fake outside of a test.
func LaunchFake() *Fake {
	f := NewHandler()
	f.server = httptest.NewServer(f)
	return f
}

// NewHandler returns a fake without a server, and thus without a URL, for tests that have a server of
// their own.
func NewHandler() *Fake { return &Fake{Batch: 25, buckets: map[string]*bucket{}} }

// Close closes the server and the connections of requests that are still open.
func (f *Fake) Close() {
	f.server.CloseClientConnections()
	f.server.Close()
}

// Drop closes all connections, as a restart does.
func (f *Fake) Drop() { f.server.CloseClientConnections() }

// URL returns the server's root, which ends in /v1.
func (f *Fake) URL() string { return f.server.URL + "/v1" }

// NewCollection creates a bucket with an empty collection and returns the collection's URL.
func (f *Fake) NewCollection(t testing.TB) string { t.Helper(); return newCollection(t, f.URL()) }

// Requests returns the requests since the last call, such as
// "GET /v1/buckets/b/collections/c/records?_since=0".
func (f *Fake) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}

// ServeHTTP implements [http.Handler].
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	f.mu.Unlock()
	if fault := f.For(r); fault != nil {
		fault(w, r, f.healthy)
		return
	}
	f.healthy(w, r)
}

func (f *Fake) healthy(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if f.MaxBody > 0 && len(body) > f.MaxBody {
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge) // the response of a proxy, which is not JSON
		return
	}
	q := &call{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.Query(), header: r.Header, body: body, root: "http://" + r.Host + "/v1"}
	f.mu.Lock()
	a := f.transaction(func() answer { return f.handle(q) })
	f.mu.Unlock()
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // the client may have disconnected
	}
}

// A call is a request, or a part of a batch.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	root         string // the URL with /v1
}

// An answer is the response to a call.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// transaction calls do, and undoes the changes that do has made if the status of the answer is 409 or
// 5xx. The caller must hold f.mu.
func (f *Fake) transaction(do func() answer) answer {
	f.undo = nil
	a := do()
	if a.status == http.StatusConflict || a.status >= http.StatusInternalServerError {
		f.rollback()
	}
	f.undo = nil
	return a
}

func (f *Fake) rollback() {
	for _, undo := range slices.Backward(f.undo) {
		undo()
	}
	f.undo = nil
}

// handle carries out a call. The caller must hold f.mu.
func (f *Fake) handle(q *call) answer {
	segments := strings.Split(strings.Trim(strings.TrimPrefix(q.path, "/v1"), "/"), "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil || strings.ContainsRune(decoded, '/') {
			return missing("", "")
		}
		segments[i] = decoded
	}
	route := ""
	for i, s := range segments {
		if i%2 == 0 {
			route = path.Join(route, s)
		}
	}
	switch at := fmt.Sprintf("%s %d", route, len(segments)); at {
	case " 1":
		return f.root()
	case "batch 1":
		return f.batch(q)
	case "__flush__ 1":
		f.buckets = map[string]*bucket{}
		return reply(http.StatusAccepted, map[string]any{})
	case "buckets 2":
		return f.bucket(q, segments[1])
	case "buckets/collections 3", "buckets/collections 4", "buckets/collections/records 5", "buckets/collections/records 6", "buckets/collections/changeset 5":
		return f.below(q, segments)
	}
	return missing("", "")
}

// below carries out a call for something in a bucket.
func (f *Fake) below(q *call, segments []string) answer {
	if segments[1] == "monitor" && len(segments) == 5 && segments[4] == "changeset" && f.Changes {
		return f.changeset(q)
	}
	b := f.buckets[segments[1]]
	if b == nil {
		return missing("bucket", segments[1])
	}
	if len(segments) == 3 {
		return f.list(q, b.list())
	}
	c := b.collections[segments[3]]
	switch {
	case len(segments) == 4:
		return f.collection(q, b, segments[3])
	case c == nil:
		return missing("collection", segments[3])
	case segments[4] != "records":
		return missing("", "")
	case len(segments) == 6:
		return f.record(q, c, segments[5])
	case q.method == http.MethodPost:
		return f.post(q, c)
	case q.method == http.MethodDelete:
		return f.deleteAll(q, c)
	}
	return f.list(q, c.rows)
}
