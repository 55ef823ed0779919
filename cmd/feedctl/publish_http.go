package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/server"
)

// maxRetryAfter is how long a server may ask to be left alone.
const maxRetryAfter = 5 * time.Minute

// An httpPublisher publishes to a feed on a server. It gives Content-IDs to
// entities without, so that it can repeat a request whose outcome it does not
// know.
type httpPublisher struct {
	client     *http.Client
	url        string
	credential credential
	attempts   int // of a request; negative: no limit
	boundary   string
	buf        []byte
	failed     error // of a batch that was begun
}

func newHTTPPublisher(transport http.RoundTripper, to, name, credentialsFile string, attempts int) (*httpPublisher, error) {
	u, err := parseURL(to)
	if err != nil {
		return nil, err
	}
	c, err := readCredential(credentialsFile)
	if err != nil {
		return nil, err
	}
	return &httpPublisher{
		client:     &http.Client{Transport: transport, CheckRedirect: noRedirect},
		url:        u.JoinPath("feeds", name).String(),
		credential: c,
		attempts:   attempts,
	}, nil
}

// noRedirect keeps entities and credentials with the server they are for.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (p *httpPublisher) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// Begin publishes the entities. There is nothing to gain from sending more while a
// server is busy with these. After an error nothing more is sent: what follows must
// not come into the feed in front of what failed. When ctx ends, a request that is on
// its way is finished, and not repeated.
func (p *httpPublisher) Begin(ctx context.Context, entities []*feed.Entity, _ bool) (func() (server.Receipt, error), error) {
	var receipt server.Receipt
	if p.failed == nil {
		receipt, p.failed = p.Publish(ctx, entities...)
	}
	err := p.failed
	return func() (server.Receipt, error) { return receipt, err }, nil
}

// Publish sends the entities as one multipart document. If the last one is a
// stream, it goes alone, and only once: it cannot be read again.
func (p *httpPublisher) Publish(ctx context.Context, entities ...*feed.Entity) (server.Receipt, error) {
	for _, e := range entities {
		if e.ContentID == "" {
			e.ContentID = "<" + rand.Text() + "@feedctl>"
		}
	}
	last := entities[len(entities)-1]
	if last.Stream == nil {
		return p.publishWhole(ctx, entities)
	}
	var before server.Receipt
	if len(entities) > 1 {
		var err error
		if before, err = p.publishWhole(ctx, entities[:len(entities)-1]); err != nil {
			return before, err
		}
	}
	receipt, err := p.post(ctx, entityHeader(last), last.Stream, last.Size)
	receipt.Published += before.Published
	receipt.Duplicates += before.Duplicates
	return receipt, err
}

func (p *httpPublisher) publishWhole(ctx context.Context, entities []*feed.Entity) (server.Receipt, error) {
	if err := p.encode(entities); err != nil {
		return server.Receipt{}, err
	}
	header := http.Header{"Content-Type": {page.ContentType(p.boundary)}}
	pauses := backoff.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}
	for n := 1; ; n++ {
		receipt, err := p.post(ctx, header, bytes.NewReader(p.buf), int64(len(p.buf)))
		if err == nil || n == p.attempts || !mayRepeat(err) {
			return receipt, err
		}
		pause := pauses.After(n)
		if status, ok := errors.AsType[*consumer.StatusError](err); ok {
			pause = max(pause, min(status.RetryAfter, maxRetryAfter))
		}
		if backoff.Sleep(ctx, pause) != nil {
			return receipt, err
		}
	}
}

// encode makes a multipart document of the entities in p.buf, with a boundary
// that occurs in none.
func (p *httpPublisher) encode(entities []*feed.Entity) error {
	for {
		p.boundary, p.buf = page.NewBoundary(), p.buf[:0]
		err := p.encodeWith(entities)
		if !errors.Is(err, page.ErrBoundaryInBody) {
			return err
		}
	}
}

func (p *httpPublisher) encodeWith(entities []*feed.Entity) (err error) {
	var header page.Header
	for i, e := range entities {
		header = e.AppendHeader(header[:0])
		if p.buf, err = page.AppendPart(p.buf, p.boundary, header, e.Body); err != nil {
			return fmt.Errorf("encode entity %d: %w", i, err)
		}
	}
	p.buf = page.AppendClose(p.buf, p.boundary)
	return nil
}

// entityHeader returns the header of a request whose body is the entity's.
func entityHeader(e *feed.Entity) http.Header {
	h := make(http.Header)
	for _, field := range e.AppendHeader(nil) {
		if name := string(field.Name); !strings.EqualFold(name, "Last-Modified") {
			h.Add(name, string(field.Value))
		}
	}
	return h
}

func (p *httpPublisher) post(ctx context.Context, header http.Header, body io.Reader, size int64) (_ server.Receipt, err error) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, p.url, body)
	if err != nil {
		return server.Receipt{}, err
	}
	request.Header = header.Clone()
	request.ContentLength = size
	switch {
	case p.credential.bearer != "":
		request.Header.Set("Authorization", "Bearer "+p.credential.bearer)
	case p.credential.username != "":
		request.SetBasicAuth(p.credential.username, p.credential.password)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return server.Receipt{}, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return readReceipt(p.url, response)
}

// maxAnswer limits what is read of a server's answer, in bytes.
const maxAnswer = 64 << 10

func readReceipt(at string, response *http.Response) (receipt server.Receipt, err error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return receipt, &url.Error{Op: "Post", URL: at, Err: fmt.Errorf("read answer: %w", err)}
	}
	if response.StatusCode/100 != 2 {
		status := &consumer.StatusError{Method: http.MethodPost, URL: at, StatusCode: response.StatusCode, RetryAfter: backoff.RetryAfter(response.Header)}
		_ = json.Unmarshal(data, &status.Problem) // not every server explains itself
		return receipt, status
	}
	if err := json.Unmarshal(data, &receipt); err != nil {
		return receipt, fmt.Errorf("read answer of %s: %w", at, err)
	}
	return receipt, nil
}

// mayRepeat reports whether a request may succeed later: the network broke, or
// the server says so.
func mayRepeat(err error) bool {
	var status *consumer.StatusError
	if !errors.As(err, &status) {
		var broken *url.Error
		return errors.As(err, &broken)
	}
	return consumer.Retryable(err)
}
