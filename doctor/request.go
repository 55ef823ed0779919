package doctor

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/page"
)

type answer struct {
	url    *url.URL
	status int
	header http.Header
	tls    bool
	expiry time.Time // of the server's certificate; zero if there is none
	sent   time.Time
	took   time.Duration // until the header was received
	body   content
	err    error // of reading the body
}

// A content describes a body without its content coding. It does not hold the body,
// which may be large.
type content struct {
	size   int64
	sum    [sha256.Size]byte
	start  []byte // its first bytes
	cut    bool   // only maxPage bytes were read
	broken error  // why it is not a complete page
}

// startSize is how much of a body is kept.
const startSize = 64 << 10

// fields are "Name: value" pairs of a request's header.
type fields [][2]string

// identity requests the stored bytes. Without it, net/http would transparently request
// gzip.
var identity = [2]string{"Accept-Encoding", "identity"}

// do makes one request, without following redirects, and reads the body.
func (v *visit) do(ctx context.Context, method string, u *url.URL, header fields) (*answer, error) {
	return v.doWithin(ctx, v.config.Timeout, method, u, header)
}

func (v *visit) doWithin(ctx context.Context, limit time.Duration, method string, u *url.URL, header fields) (*answer, error) {
	if !v.permitted(u) {
		return nil, fmt.Errorf("%s is at another origin, which is not allowed", u.Redacted())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no response within %v", limit))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if sameOrigin(u, v.home) {
		for name, values := range v.config.Header {
			request.Header[http.CanonicalHeaderKey(name)] = values
		}
		if v.config.Authorization != "" {
			request.Header.Set("Authorization", v.config.Authorization)
		}
	}
	request.Header.Set("User-Agent", "feedctl-doctor")
	for _, field := range header {
		request.Header.Set(field[0], field[1])
	}
	a := &answer{url: u, sent: time.Now()}
	response, err := v.client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	defer response.Body.Close()
	a.took = time.Since(a.sent)
	a.status, a.header = response.StatusCode, response.Header
	if response.TLS != nil {
		a.tls = true
		if certificates := response.TLS.PeerCertificates; len(certificates) > 0 {
			a.expiry = certificates[0].NotAfter
		}
	}
	a.body, a.err = take(response)
	return a, nil
}

// take reads a body to its end.
func take(response *http.Response) (c content, err error) {
	body := io.Reader(response.Body)
	if strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") && response.Request.Method != http.MethodHead {
		if body, err = gzip.NewReader(body); err != nil {
			return c, err
		}
	}
	hash := sha256.New()
	tee := io.TeeReader(io.LimitReader(body, maxPage), io.MultiWriter(hash, (*prefix)(&c), (*counter)(&c)))
	boundary, notPage := page.Boundary(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && notPage == nil && response.Request.Method != http.MethodHead {
		c.broken = parse(tee, boundary)
	}
	_, err = io.Copy(io.Discard, tee)
	c.cut = c.size == maxPage
	hash.Sum(c.sum[:0])
	return c, err
}

// parse reads a page to its closing delimiter.
func parse(body io.Reader, boundary string) error {
	for _, err := range page.NewReader(body, boundary, page.ReaderOptions{MaxWhole: startSize}).Parts() {
		if err != nil {
			return err
		}
	}
	return nil
}

// A prefix keeps the start of what is written to it.
type prefix content

func (p *prefix) Write(b []byte) (int, error) {
	p.start = append(p.start, b[:min(len(b), startSize-len(p.start))]...)
	return len(b), nil
}

// A counter counts what is written to it.
type counter content

func (c *counter) Write(b []byte) (int, error) {
	c.size += int64(len(b))
	return len(b), nil
}

// text returns the status, such as "200 OK".
func (a *answer) text() string { return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)) }

func (a *answer) etag() string { return a.header.Get("Etag") }
