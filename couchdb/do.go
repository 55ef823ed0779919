package couchdb

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/roundtrip"
)

// A Request is an HTTP request. The zero Request is a GET of the database itself.
type Request struct {
	Method string // empty: GET
	// Path below the database, percent-encoded (see [DocPath]): "_changes".
	// A path that begins with "/" is below the server's URL: "/" or "/_session".
	Path   string
	Query  url.Values
	Header http.Header
	// Body returns the request body. It is called for each attempt. The reader that it returns is
	// closed if it is an [io.Closer]. nil means no body.
	Body func() (io.Reader, error)
	// Length is the size of Body in bytes, or -1 if it is unknown.
	Length int64
	// Repeat marks a request that is idempotent, so it may be repeated. GET and HEAD always are.
	// After status 429 any request is repeated.
	Repeat bool
	// Once forbids repeating the request, except after a session expired.
	Once bool
	// IdleTimeout is how long a read of the response body may wait for the next
	// byte. Zero means that of [Config].
	IdleTimeout time.Duration

	writes    bool // the request writes documents, one of which may cause a status 500
	anonymous bool // the request is sent without credentials
}

// JSONRequest returns a request with a JSON body.
func JSONRequest(method, path string, body []byte) Request {
	return Request{
		Method: method, Path: path,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   func() (io.Reader, error) { return bytes.NewReader(body), nil },
		Length: int64(len(body)),
	}
}

// Do makes a request. If the error is nil, the response has status 2xx or 304 and a body that the
// caller must close; reads of the body fail after the idle timeout. Otherwise, the error is an
// [*Error], a network error or the error of ctx, and contains no credentials. See also [Retryable].
//
// If the session has expired, Do logs in and repeats the request.
func (db *DB) Do(ctx context.Context, q Request) (*http.Response, error) {
	var resp *http.Response
	err := db.repeat(ctx, &q, func() (err error) {
		resp, err = db.trySession(ctx, q) //nolint:bodyclose // the caller closes it
		return err
	})
	return resp, err
}

func (db *DB) repeat(ctx context.Context, q *Request, try func() error) error {
	q.Method = cmp.Or(q.Method, http.MethodGet)
	return db.client.Repeat(ctx, q.mayRepeat, try)
}

// mayRepeat reports whether the request may be made again after err.
func (q *Request) mayRepeat(err error) bool {
	if q.Once || !Retryable(err) || q.writes && Status(err) == http.StatusInternalServerError {
		return false
	}
	// A request that was refused with status 429 had no effect.
	return q.Repeat || q.Method == http.MethodGet || q.Method == http.MethodHead || Status(err) == http.StatusTooManyRequests
}

// maxLogins is how many times one request may log in again. Even a new session may be refused if
// the server was restarted with another secret, or if the nodes of a cluster do not share a secret.
const maxLogins = 3

// trySession makes a request once, and again if the session has expired.
func (db *DB) trySession(ctx context.Context, q Request) (*http.Response, error) {
	resp, cookie, err := db.try(ctx, q)
	for n := 0; n < maxLogins && cookie != "" && errors.Is(err, ErrUnauthorized); n++ {
		db.session.replace(cookie, nil)
		resp, cookie, err = db.try(ctx, q)
	}
	if cookie != "" && err == nil {
		if newer := findCookie(resp); newer != nil {
			db.session.replace(cookie, newer)
		}
	}
	return resp, err
}

// try makes a request once, as soon as Limits allows it. It returns the session cookie that was
// used, if any.
func (db *DB) try(ctx context.Context, q Request) (_ *http.Response, cookie string, err error) {
	r, err := db.request(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if cookie, err = db.authorize(q, r); err != nil {
		return nil, "", err
	}
	for name, values := range db.config.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if err := q.open(r); err != nil {
		return nil, "", fmt.Errorf("%s %s: open request body: %w", q.Method, db.address(q), err)
	}
	resp, err := db.client.Send(r, db.what(q), db.options(ctx, q))
	if err != nil {
		return nil, "", err
	}
	err = db.decode(q, resp)
	if !roundtrip.OK(resp.StatusCode) {
		err = db.responseError(q, resp) // return this error even if the encoding is unknown
	}
	if err != nil {
		resp.Body.Close()
		return nil, cookie, err
	}
	return resp, cookie, nil
}

// address returns the URL of a request, without credentials.
func (db *DB) address(q Request) string {
	address := db.base
	switch {
	case strings.HasPrefix(q.Path, "/"):
		address = db.root + q.Path
	case q.Path != "":
		address += "/" + q.Path
	}
	if len(q.Query) > 0 {
		address += "?" + q.Query.Encode()
	}
	return address
}

// what returns the method and URL of a request, without its query, for transport errors.
func (db *DB) what(q Request) string {
	q.Query = nil
	return q.Method + " " + db.address(q)
}

func (db *DB) request(ctx context.Context, q Request) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, db.address(q), nil)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", q.Method, db.address(q), err)
	}
	r.Header.Set("User-Agent", "feedctl")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Encoding", "identity") // compression would delay rows until a block is full
	for name, values := range q.Header {
		r.Header[name] = values
	}
	return r, nil
}

// open sets the body of r.
func (q *Request) open(r *http.Request) (err error) {
	if q.Body == nil || q.Length == 0 {
		return nil
	}
	r.ContentLength = q.Length
	r.GetBody = func() (io.ReadCloser, error) {
		body, err := q.Body()
		if err != nil {
			return nil, err
		}
		if closer, ok := body.(io.ReadCloser); ok {
			return closer, nil
		}
		return io.NopCloser(body), nil
	}
	r.Body, err = r.GetBody()
	return err
}

// DocPath returns the path of a document for [Request.Path]. In the ids of design documents and
// local documents, the first "/" is not encoded; CouchDB requires it.
func DocPath(id string) string {
	for _, prefix := range [...]string{"_design/", "_local/"} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			return prefix + EscapeID(name)
		}
	}
	return EscapeID(id)
}

// EscapeID percent-encodes a document id so that it is one segment of a path. It encodes all but
// the unreserved characters of RFC 3986, including "+", which CouchDB reads as a space, and the ids
// "." and "..", which would be dot segments.
func EscapeID(id string) string {
	if id == "." || id == ".." {
		return strings.Repeat("%2E", len(id))
	}
	return strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}

// decode decompresses a response that a proxy has compressed although that was not requested.
func (db *DB) decode(q Request, resp *http.Response) error {
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{ReadCloser: resp.Body, what: db.what(q)}
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
		return nil
	default:
		return fmt.Errorf("%s: %w: unexpected Content-Encoding %q", db.what(q), ErrMalformed, encoding)
	}
}

// A gzipBody decompresses a response body.
type gzipBody struct {
	io.ReadCloser
	what string
	src  *gzip.Reader // nil until its header has been read
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.src == nil {
		b.src, err = gzip.NewReader(b.ReadCloser)
	}
	if err == nil {
		n, err = b.src.Read(p)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, roundtrip.Broken(b.what, err)
}
