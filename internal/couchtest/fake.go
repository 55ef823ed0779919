package couchtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/httpfault"
)

// A Fake is a server that responds like Apache CouchDB 3.5 with two shards. It keeps
// databases in memory, and injects faults on demand.
//
// Its sequences are opaque, and are encoded differently in every response; the order of the rows changes,
// too. It preserves the bytes of the JSON that it receives. The fields must not be changed after the first
// request.
type Fake struct {
	httpfault.Faults
	// Validate refuses documents, as the validation functions of design documents do. If it returns an
	// error, the document is "forbidden" for that reason, unless the error is a [ThrownError].
	Validate func(id string, doc []byte) error
	// Filters holds the filter functions by name, such as "app/important", and the views that can be named
	// with filter=_view. They are called with the winning revision.
	Filters map[string]func(doc []byte, query url.Values) bool
	// MaxDocument limits the size of a document's JSON, in bytes.
	MaxDocument int
	// MaxInfos limits the number of databases in a request to _dbs_info.
	MaxInfos int
	// NoAdmin refuses requests for which clients must be server admins.
	NoAdmin bool
	// Copies is how many nodes have each shard; 0 means one.
	Copies int
	// OldStartTime makes instance_start_time "0", as it was before CouchDB 3.3.
	OldStartTime bool

	server *httptest.Server

	mu        sync.Mutex
	databases map[string]*database
	created   int           // databases in all
	changed   chan struct{} // closed and replaced at every change
	random    *rand.Rand
	requests  []string
	lost      int // how many of the next events are to be lost
	auth      auth
}

// ThrownError is an error that a validation function throws other than "forbidden" or "unauthorized", such
// as a JavaScript exception. CouchDB sends it in a response with status 500 or, for _bulk_docs, in the
// document's row of the response.
type ThrownError struct{ Code, Reason string }

func (t ThrownError) Error() string { return t.Code + ": " + t.Reason }

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

// NewHandler returns a fake without a server, and thus without a URL, for tests that have a server of their
// own.
func NewHandler() *Fake {
	return &Fake{
		Filters:     map[string]func([]byte, url.Values) bool{},
		MaxDocument: 8_000_000,
		MaxInfos:    100,
		databases:   map[string]*database{},
		changed:     make(chan struct{}),
		random:      rand.New(rand.NewPCG(1, 2)),
	}
}

// Close closes the server, including feeds that are still open.
func (f *Fake) Close() {
	f.server.CloseClientConnections()
	f.server.Close()
}

// URL returns the server's root, without a slash at its end.
func (f *Fake) URL() string { return f.server.URL }

// NewDB creates an empty database with a name of its own and returns its URL,
// without a slash at its end.
func (f *Fake) NewDB(t testing.TB) string {
	t.Helper()
	name := "db" + strconv.FormatInt(databases.Add(1), 10)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create(name)
	return f.server.URL + "/" + name
}

// Requests returns the requests since the last call, such as
// "GET /db1/_changes?since=0".
func (f *Fake) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}

// Drop closes all connections, as a restart does.
func (f *Fake) Drop() { f.server.CloseClientConnections() }

// A failure is an error response.
type failure struct {
	status       int
	code, reason string
}

func (e *failure) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.reason) }

var (
	errConflict = &failure{http.StatusConflict, "conflict", "Document update conflict."}
	errMissing  = &failure{http.StatusNotFound, "not_found", "missing"}
	errDeleted  = &failure{http.StatusNotFound, "not_found", "deleted"}
)

func badRequest(reason string) *failure {
	return &failure{http.StatusBadRequest, "bad_request", reason}
}

// ServeHTTP implements [http.Handler].
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	broken := f.For(r)
	f.mu.Unlock()
	w.Header().Set("Server", "CouchDB/3.5.2 (Erlang OTP/27)")
	healthy := http.HandlerFunc(f.serve)
	if broken != nil {
		broken(w, r, healthy)
		return
	}
	healthy(w, r)
}

// serve responds as a healthy server does. A response is complete before it is sent, so that a slow client
// does not delay others; only feeds are streamed.
func (f *Fake) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/_changes") || r.URL.Path == "/_db_updates" {
		if err := f.answer(w, r); err != nil {
			writeFailure(w, err)
		}
		return
	}
	made := httptest.NewRecorder()
	if err := f.answer(made, r); err != nil {
		clear(made.Header())
		writeFailure(made, err)
	}
	maps.Copy(w.Header(), made.Header())
	w.WriteHeader(made.Code)
	w.Write(made.Body.Bytes())
}

func (f *Fake) answer(w http.ResponseWriter, r *http.Request) error {
	parts, err := pathParts(r)
	if err != nil {
		return err
	}
	if len(parts) == 1 && parts[0] == "_session" {
		return f.session(w, r)
	}
	if len(parts) == 0 {
		// Here, no credentials are required, but wrong credentials are refused.
		if _, _, given := r.BasicAuth(); given {
			if err := f.authorize(r); err != nil {
				return err
			}
		}
		return writeJSON(w, http.StatusOK, []byte(`{"couchdb":"Welcome","version":"3.5.2","git_sha":"ad30249",`+
			`"uuid":"0123456789abcdef0123456789abcdef","features":["quickjs","partitioned","reshard","scheduler"],`+
			`"vendor":{"name":"The Apache Software Foundation"}}`))
	}
	if err := f.authorize(r); err != nil {
		return err
	}
	if len(parts) == 1 && (parts[0] == "_db_updates" || parts[0] == "_dbs_info") {
		return f.serverRequest(w, r, parts[0])
	}
	if len(parts) == 1 {
		return f.databaseRequest(w, r, parts[0])
	}
	f.mu.Lock()
	db := f.databases[parts[0]]
	f.mu.Unlock()
	if db == nil {
		return errNoDatabase
	}
	return f.documentRequest(w, r, db, parts[1:])
}

// pathParts splits the path of a request. The id of a design document or local document is one part, whether
// or not its slash is encoded.
func pathParts(r *http.Request) (parts []string, err error) {
	for part := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		text, err := url.PathUnescape(part)
		if err != nil {
			return nil, badRequest("Malformed URL")
		}
		if last := len(parts) - 1; last == 1 && (parts[1] == "_design" || parts[1] == "_local") {
			parts[last] += "/" + text
			continue
		}
		if part != "" {
			parts = append(parts, text)
		}
	}
	return parts, nil
}

func (f *Fake) documentRequest(w http.ResponseWriter, r *http.Request, db *database, parts []string) error {
	handlers := map[string]func(http.ResponseWriter, *http.Request, *database) error{
		"GET _changes":             f.changes,
		"POST _changes":            f.changes,
		"GET _all_docs":            f.allDocs,
		"POST _all_docs":           f.allDocs,
		"GET _local_docs":          f.localDocs,
		"POST _bulk_docs":          f.bulkDocs,
		"POST _bulk_get":           f.bulkGet,
		"POST _revs_diff":          f.revsDiff,
		"POST _ensure_full_commit": f.ensureFullCommit,
	}
	if handler := handlers[r.Method+" "+parts[0]]; handler != nil && len(parts) == 1 {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && kind != "application/json" {
			return &failure{http.StatusUnsupportedMediaType, "bad_content_type", "Content-Type must be application/json"}
		}
		return handler(w, r, db)
	}
	switch {
	case strings.HasPrefix(parts[0], "_local/"):
		return f.local(w, r, db, parts[0])
	case strings.HasPrefix(parts[0], "_") && !strings.HasPrefix(parts[0], "_design/"):
		return &failure{http.StatusNotFound, "not_found", "missing handler: " + parts[0]}
	case len(parts) > 1:
		return f.attachment(w, r, db, parts[0], path.Join(parts[1:]...))
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return f.get(w, r, db, parts[0])
	case http.MethodPut:
		return f.put(w, r, db, parts[0])
	case http.MethodDelete:
		return f.delete(w, r, db, parts[0])
	}
	return &failure{http.StatusMethodNotAllowed, "method_not_allowed", "Only DELETE,GET,HEAD,POST,PUT,COPY allowed"}
}

// change wakes all feeds, since something has changed. The caller must hold f.mu.
func (f *Fake) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// byURL returns the database with a URL. The caller must hold f.mu.
func (f *Fake) byURL(database string) *database { return f.databases[path.Base(database)] }

func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Cache-Control", "must-revalidate")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(slices.Concat(body, []byte("\n")))
	return nil
}

func writeFailure(w http.ResponseWriter, err error) {
	var e *failure
	if !errors.As(err, &e) {
		e = &failure{http.StatusInternalServerError, "unknown_error", err.Error()}
	}
	_ = writeJSON(w, e.status, object(member{"error", quote(e.code)}, member{"reason", quote(e.reason)}))
}
