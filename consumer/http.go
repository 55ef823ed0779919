package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/idle"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
)

const defaultUserAgent = "feedctl"

// maxRedirects is the maximum number of redirects of one request.
const maxRedirects = 10

// An httpSource is the Source of one session that requests pages from HTTP servers.
type httpSource struct {
	s           *session
	client      http.Client // with the redirect rules
	home        string      // the origin that receives credentials and headers
	trusted     []string    // further origins
	credentials Credentials
	// announcement is the value of [feed.ConsumerHeader]; "" or nil: none.
	announcement atomic.Pointer[string]
}

// newHTTPSource returns the source for a URL passed by a caller, and the URL without its
// user name and password.
func newHTTPSource(s *session, raw string) (*httpSource, string, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, "", err
	}
	h := &httpSource{s: s, client: *s.config.HTTPClient, home: origins.Of(u), credentials: s.config.Credentials}
	if u.User != nil && h.credentials == (Credentials{}) {
		h.credentials.Username = u.User.Username()
		h.credentials.Password, _ = u.User.Password()
	}
	u.User, u.Fragment = nil, ""
	h.client.CheckRedirect = h.redirect
	return h, u.String(), nil
}

// An httpResponse is the response of a server. Method accept of httpSource decodes and limits its body.
type httpResponse struct {
	url      *url.URL // after redirects
	status   int
	header   http.Header
	body     io.ReadCloser
	verified bool // body ends with io.EOF only if its declared digest or checksum matches
}

// Get implements [Source]. Its errors need no more context. Get returns a response for the statuses 200,
// 204, 206 and 304, and an error for all others.
func (h *httpSource) Get(parent context.Context, q Request) (*Response, error) {
	u, err := parseURL(q.URL)
	if err != nil {
		return nil, err
	}
	u.User = nil
	if !q.Latest.IsZero() && u.RawQuery == "" { // a query may contain a signature, so it is not changed
		u.RawQuery = url.Values{"at": {q.Latest.UTC().Format(time.RFC3339)}}.Encode()
	}
	if err := h.permit(u); err != nil {
		return nil, fmt.Errorf("get %s: %w", u, err)
	}
	ctx, cancel := context.WithCancelCause(parent)
	method := http.MethodGet
	if q.Head {
		method = http.MethodHead
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("get %s: %w", u, err)
	}
	h.setHeader(req)
	q.setHeader(req.Header)
	resp, err := h.client.Do(req) //nolint:bodyclose // body closes it
	if err != nil {
		cancel(nil)
		return nil, h.requestError(u.String(), err)
	}
	body := &idle.Body{Src: resp.Body, Context: ctx, Cancel: cancel, Timeout: h.s.config.IdleTimeout, Least: h.s.config.IdleBytes, Broken: func(err error) error {
		if ended := h.s.ctx.Err(); ended != nil {
			return ended
		}
		return &transportError{url: u.String(), err: err}
	}}
	r := &httpResponse{url: resp.Request.URL, status: resp.StatusCode, header: resp.Header, body: body}
	answer, err := h.accept(q, r)
	if err != nil {
		body.Close()
		return nil, err
	}
	return answer, nil
}

func (q *Request) setHeader(h http.Header) {
	if q.ETag != "" {
		h.Set("If-None-Match", q.ETag)
	}
	if q.Wait > 0 {
		h.Set("Prefer", "wait="+strconv.Itoa(int(q.Wait/time.Second)))
	}
	if !q.At.IsZero() {
		h.Set("Accept-Datetime", feed.FormatTime(q.At))
	}
	if q.Offset > 0 {
		last := ""
		if q.Length > 0 {
			last = strconv.FormatInt(q.Offset+q.Length-1, 10)
		}
		h.Set("Range", "bytes="+strconv.FormatInt(q.Offset, 10)+"-"+last)
		h.Set("Accept-Encoding", "identity") // offsets are in the page without a content coding
	}
}

// accept converts r to a Response, with a decoded body and a parsed header, or returns an
// error if its status is not expected.
func (h *httpSource) accept(q Request, r *httpResponse) (*Response, error) {
	answer := &Response{URL: redact(r.url.String()), ETag: strings.TrimSpace(r.header.Get("ETag")), Header: r.header}
	switch r.status {
	case http.StatusPartialContent:
		if q.Offset == 0 {
			return nil, newStatusError(r) // no range was requested
		}
		answer.Answer = Part
	case http.StatusOK:
		answer.Answer = Whole
	case http.StatusNoContent:
		answer.Answer = Empty
	case http.StatusNotModified:
		answer.Answer = NotModified
	default:
		return nil, newStatusError(r)
	}
	if (answer.Answer == Whole || answer.Answer == Part) && !q.Head {
		if want := declaredDigest(r.status, r.header); want != nil {
			r.body, r.verified = newDigestBody(r.body, r.url.String(), want), true
		}
		body, err := decode(r, h.s.config.MaxPage)
		if err != nil {
			return nil, err
		}
		r.body = body
	}
	answer.Body, answer.Verified = r.body, r.verified
	return answer, h.describe(q, r, answer)
}

// describe sets the fields of answer from the header of r, according to the kind of request.
func (h *httpSource) describe(q Request, r *httpResponse, answer *Response) error {
	switch {
	case answer.Answer == Empty:
		return nil
	case answer.Answer == NotModified:
		answer.Chain, _ = feed.ParseChain(r.header)
		if len(r.header.Values("Link")) == 0 {
			return nil
		}
		return describeLinks(r, answer, q.URL)
	case q.Kind == SnapshotIndex:
		return h.describeIndex(r, answer)
	case q.Kind == StateDigest:
		h.describeOwn(r, answer)
		return nil
	case q.Kind == PageIndex:
		return nil
	}
	if err := describePage(r, answer); err != nil || q.Kind == SnapshotPage {
		return err
	}
	if err := describeLinks(r, answer, answer.URL); err != nil {
		return err
	}
	answer.Chain, _ = feed.ParseChain(r.header) // RFC 9651, section 4.2: a malformed field is ignored
	return nil
}

func describePage(r *httpResponse, answer *Response) error {
	boundary, err := page.Boundary(r.header.Get("Content-Type"))
	if err != nil {
		return &PageError{URL: answer.URL, Part: -1, Err: fmt.Errorf("%w: %w", ErrMediaType, err)}
	}
	answer.Boundary = boundary
	if value := r.header.Get("Last-Modified"); value != "" {
		t, err := feed.ParseTime(value)
		if err != nil {
			return &PageError{URL: answer.URL, Part: -1, Err: err}
		}
		answer.LastModified = t
	}
	return nil
}

// describeLinks sets the links of a page in answer; at is the URL of the page in errors.
func describeLinks(r *httpResponse, answer *Response, at string) error {
	links, err := feed.ParseLinks(r.url, r.header)
	if err != nil {
		return &PageError{URL: at, Part: -1, Err: fmt.Errorf("%w: %w", ErrLinks, err)}
	}
	for _, link := range [...]*string{&links.Self, &links.Prev, &links.Next, &links.First, &links.Last, &links.Timegate, &links.Timemap, &links.DescribedBy} {
		*link = redact(*link)
	}
	answer.Links = links
	return nil
}

func (h *httpSource) describeIndex(r *httpResponse, answer *Response) error {
	if kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type")); err != nil || kind != snapshot.MediaType {
		return indexError(answer.URL, fmt.Errorf("%w %q: must be %s", ErrMediaType, r.header.Get("Content-Type"), snapshot.MediaType))
	}
	h.describeOwn(r, answer)
	return nil
}

// describeOwn sets the resource's own URL in answer, since the entry point may lead to another resource the
// next time.
func (h *httpSource) describeOwn(r *httpResponse, answer *Response) {
	if own, err := url.Parse(r.header.Get("Content-Location")); err == nil && *own != (url.URL{}) {
		if own = r.url.ResolveReference(own); h.permit(own) == nil {
			own.User = nil
			answer.Own = own.String()
		}
	}
}

// requestError returns the error for a request to which there was no response.
func (h *httpSource) requestError(target string, err error) error {
	var repeated *url.Error // repeats the URL
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	if errors.Is(err, ErrOrigin) || errors.Is(err, errRedirects) {
		return fmt.Errorf("get %s: %w", shown(target), err)
	}
	return &transportError{url: target, err: err}
}

// maxProblem is how much of the body of an error response is read, in bytes.
const maxProblem = 64 << 10

func newStatusError(r *httpResponse) error {
	e := &StatusError{URL: redact(r.url.String()), StatusCode: r.status, RetryAfter: backoff.RetryAfter(r.header)}
	if kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); kind != "application/problem+json" {
		return e
	}
	if body, err := decode(r, maxProblem); err == nil {
		// An unreadable body must not hide the status.
		if data, err := io.ReadAll(body); err == nil {
			_ = json.Unmarshal(data, &e.Problem)
		}
	}
	return e
}

// permit returns an error if requests to u are not allowed.
func (h *httpSource) permit(u *url.URL) error {
	if o := origins.Of(u); o != h.home && !h.s.allowed[o] && !slices.Contains(h.trusted, o) {
		return fmt.Errorf("%w: %s (the feed is at %s); allow it if you trust it", ErrOrigin, o, h.home)
	}
	return nil
}

// redirect implements CheckRedirect of [http.Client]. It builds the header again, since the one copied by
// the http.Client contains fields that must not be sent to another origin.
func (h *httpSource) redirect(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
		return fmt.Errorf("%w: redirect to scheme %q", ErrOrigin, next.URL.Scheme)
	}
	if err := h.permit(next.URL); err != nil {
		return err
	}
	next.URL.User = nil
	own := next.Header
	next.Header = make(http.Header)
	for _, name := range [...]string{"Prefer", "If-None-Match", "Accept-Datetime", "Range"} {
		if values := own.Values(name); len(values) > 0 {
			next.Header[name] = values
		}
	}
	h.setHeader(next)
	if own.Get("Range") != "" {
		next.Header.Set("Accept-Encoding", "identity")
	}
	return nil
}

var errRedirects = errors.New("too many redirects")

// encodings returns the Accept-Encoding for a host. It requests no compression from the same machine, since
// compressing takes longer than sending.
func encodings(host string) string {
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "identity"
	}
	return "gzip, zstd"
}

// setHeader sets the header fields of every request, according to its origin.
func (h *httpSource) setHeader(r *http.Request) {
	r.Header.Set("User-Agent", defaultUserAgent)
	r.Header.Set("Accept-Encoding", encodings(r.URL.Hostname()))
	for _, name := range [...]string{"User-Agent", "Accept-Encoding"} {
		if values := h.s.config.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if origins.Of(r.URL) != h.home {
		return
	}
	if a := h.announcement.Load(); a != nil && *a != "" {
		r.Header.Set(feed.ConsumerHeader, *a)
	}
	for name, values := range h.s.config.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	switch c := h.credentials; {
	case c.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.Bearer)
	case c != Credentials{}:
		r.SetBasicAuth(c.Username, c.Password)
	}
}
