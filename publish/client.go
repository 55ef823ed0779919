package publish

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/page"
)

// maxRetryAfter is the maximum delay before a retry, even if the server asks for more.
const maxRetryAfter = 5 * time.Minute

// defaultAttempts is the default of Config.Attempts.
const defaultAttempts = 8

// A Config configures a Client.
type Config struct {
	// URL is the URL of the feed, such as https://data.example.org/feeds/orders, without
	// credentials.
	URL         string
	Credentials consumer.Credentials
	// HTTPClient sends the requests; nil means that [http.DefaultClient] sends them. Redirects are
	// not followed, so that entities and credentials do not go to another server.
	HTTPClient *http.Client
	// Attempts is how many times a request is sent if the network or the server fails. The pauses
	// between attempts are at most 30 seconds or, if the server asks for more, up to 5 minutes. 0
	// means 8 attempts; a negative number means no limit.
	Attempts int
}

// A Client publishes to one feed on a server. It may be used by several goroutines concurrently.
type Client struct {
	config  Config
	http    http.Client
	buffers sync.Pool // of *[]byte
}

// A Receipt is the outcome of publishing entities.
type Receipt struct {
	// Published is the number of entities that were written, and Duplicates the number of entities
	// whose Content-IDs were already on the newest pages of the feed.
	Published  int `json:"published"`
	Duplicates int `json:"duplicates"`
	// Page is the URL of the page to which the last published entity was written, and ContentID is
	// the Content-ID of that entity. Both are empty if no entity was written.
	Page      string `json:"page,omitempty"`
	ContentID string `json:"contentId,omitempty"`
}

// add adds the receipt of a later request to r.
func (r *Receipt) add(later Receipt) {
	r.Published += later.Published
	r.Duplicates += later.Duplicates
	r.Page, r.ContentID = cmp.Or(later.Page, r.Page), cmp.Or(later.ContentID, r.ContentID)
}

// New returns a client. It sends no request.
func New(config Config) (*Client, error) {
	u, err := url.Parse(config.URL)
	switch {
	case err != nil:
		return nil, errors.New("publish: the URL of the feed is invalid") // the error of url.Parse may contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("publish to %s: want a URL such as https://HOST/feeds/FEED", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("publish to %s: remove the credentials from the URL and set Credentials", u.Redacted())
	}
	c := &Client{config: config}
	c.config.Attempts = cmp.Or(config.Attempts, defaultAttempts)
	if config.HTTPClient != nil {
		c.http = *config.HTTPClient
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Publish publishes entities in order and returns when they are durable. It sets the ContentID of
// entities that have none. After an error, some of the entities may have been published; if all of
// them are published again soon, none is in the feed twice. An entity with a Stream is sent in a
// request that is not retried, because the stream cannot be read again.
//
// If the status of a response is not 2xx, the error is a [consumer.StatusError]. The receipt counts
// the entities that were published before the error.
func (c *Client) Publish(ctx context.Context, entities ...*feed.Entity) (Receipt, error) {
	return c.publish(ctx, ctx, entities)
}

// publish sends requests with the context sending. Once ctx has ended, requests are no longer
// retried.
func (c *Client) publish(ctx, sending context.Context, entities []*feed.Entity) (total Receipt, err error) {
	for _, e := range entities {
		if e.ContentID == "" {
			e.ContentID = "<" + rand.Text() + "@feedctl>"
		}
	}
	for len(entities) > 0 {
		var receipt Receipt
		n := whole(entities)
		if n > 0 {
			receipt, err = c.publishWhole(ctx, sending, entities[:n])
		} else {
			n = 1
			receipt, err = c.post(sending, entityHeader(entities[0]), entities[0].Stream, nil, entities[0].Size)
		}
		total.add(receipt)
		if err != nil {
			return total, err
		}
		entities = entities[n:]
	}
	return total, nil
}

// whole returns the number of entities for the next request, within the limits of a batch. An
// entity with a stream is sent alone, so whole returns 0 if the first entity has one.
func whole(entities []*feed.Entity) (n int) {
	bytes := 0
	for _, e := range entities {
		if e.Stream != nil || n == batchEntities || n > 0 && bytes+len(e.Body) > 2*batchBytes {
			break
		}
		n++
		bytes += len(e.Body)
	}
	return n
}

func (c *Client) publishWhole(ctx, within context.Context, entities []*feed.Entity) (Receipt, error) {
	buf, _ := c.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	var sending atomic.Int32 // number of bodies that a transport may still read, even after the response
	defer func() {
		if sending.Load() == 0 {
			c.buffers.Put(buf)
		}
	}()
	boundary, err := encode(buf, entities)
	if err != nil {
		return Receipt{}, err
	}
	open := func() (io.ReadCloser, error) {
		sending.Add(1)
		return &document{Reader: bytes.NewReader(*buf), sending: &sending}, nil
	}
	header := http.Header{"Content-Type": {page.ContentType(boundary)}}
	pauses := backoff.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}
	for n := 1; ; n++ {
		body, _ := open()
		receipt, err := c.post(within, header, body, open, int64(len(*buf)))
		if err == nil || n == c.config.Attempts || !mayRepeat(err) {
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

// encode encodes the entities as a multipart document with a boundary that occurs in none of them.
func encode(buf *[]byte, entities []*feed.Entity) (boundary string, err error) {
	const header = 512 // an upper estimate of what an entity takes in addition to its body, in bytes
	size := header
	for _, e := range entities {
		size += header + len(e.Body)
	}
	*buf = slices.Grow((*buf)[:0], size)
	for {
		boundary = page.NewBoundary()
		*buf, err = appendParts((*buf)[:0], boundary, entities)
		if !errors.Is(err, page.ErrBoundaryInBody) {
			return boundary, err
		}
	}
}

func appendParts(buf []byte, boundary string, entities []*feed.Entity) (_ []byte, err error) {
	var header feed.HeaderBuffer
	for _, e := range entities {
		if buf, err = page.AppendPart(buf, boundary, header.Header(e, e.LastModified), e.Body); err != nil {
			return buf, fmt.Errorf("encode entity %q: %w", e.ContentID, err)
		}
	}
	return page.AppendClose(buf, boundary), nil
}

// A document is the body of a request. The transport closes it after the last read.
type document struct {
	*bytes.Reader
	once    sync.Once
	sending *atomic.Int32
}

func (d *document) Close() error {
	d.once.Do(func() { d.sending.Add(-1) })
	return nil
}

// entityHeader returns the header of a request whose body is that of the entity.
func entityHeader(e *feed.Entity) http.Header {
	h := make(http.Header)
	for _, field := range e.AppendHeader(nil) {
		if name := string(field.Name); !strings.EqualFold(name, "Last-Modified") {
			h.Add(name, string(field.Value))
		}
	}
	return h
}

// post sends a request. If again is not nil, it is the request's GetBody: it returns the body a
// second time if the transport needs it.
func (c *Client) post(ctx context.Context, header http.Header, body io.Reader, again func() (io.ReadCloser, error), size int64) (_ Receipt, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.URL, body)
	if err != nil {
		return Receipt{}, err
	}
	request.Header = header.Clone()
	request.ContentLength, request.GetBody = size, again
	switch auth := c.config.Credentials; {
	case auth.Bearer != "":
		request.Header.Set("Authorization", "Bearer "+auth.Bearer)
	case auth != consumer.Credentials{}:
		request.SetBasicAuth(auth.Username, auth.Password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Receipt{}, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return readReceipt(c.config.URL, response)
}

// maxAnswer is the maximum size of the body of a response, in bytes.
const maxAnswer = 64 << 10

func readReceipt(at string, response *http.Response) (receipt Receipt, err error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return receipt, &url.Error{Op: "Post", URL: at, Err: fmt.Errorf("read response: %w", err)}
	}
	if response.StatusCode/100 != 2 {
		status := &consumer.StatusError{Method: http.MethodPost, URL: at, StatusCode: response.StatusCode, RetryAfter: backoff.RetryAfter(response.Header)}
		_ = json.Unmarshal(data, &status.Problem) // the problem is optional
		return receipt, status
	}
	if err := json.Unmarshal(data, &receipt); err != nil {
		return receipt, fmt.Errorf("read response of %s: %w", at, err)
	}
	return receipt, nil
}

// mayRepeat reports whether a retry may succeed: if the network failed, or if the response
// indicates it.
func mayRepeat(err error) bool {
	var status *consumer.StatusError
	if !errors.As(err, &status) {
		var broken *url.Error
		return errors.As(err, &broken)
	}
	return consumer.Retryable(err)
}

// Ordered returns a target for an [Import]. Since nothing is gained by sending more while a server
// is busy with a batch, Begin waits for the previous request. After an error, no more requests are
// sent, so that no entity gets into the feed ahead of one that failed. When ctx ends, the current
// request is finished but not retried.
func (c *Client) Ordered() Target {
	previous := &sending{done: make(chan struct{})}
	close(previous.done)
	return &ordered{c, previous}
}

type ordered struct {
	client   *Client
	previous *sending
}

// A sending is a batch that is being sent.
type sending struct {
	done    chan struct{} // closed when the other fields are set
	receipt Receipt
	err     error
}

func (s *sending) wait() (Receipt, error) {
	<-s.done
	return s.receipt, s.err
}

func (o *ordered) Begin(ctx context.Context, entities []*feed.Entity, _ bool) (func() (Receipt, error), error) {
	if _, err := o.previous.wait(); err != nil {
		return nil, err
	}
	s := &sending{done: make(chan struct{})}
	o.previous = s
	send := func() {
		defer close(s.done)
		s.receipt, s.err = o.client.publish(ctx, context.WithoutCancel(ctx), entities)
	}
	if slices.ContainsFunc(entities, func(e *feed.Entity) bool { return e.Stream != nil }) {
		send() // reads the stream
	} else {
		go send()
	}
	return s.wait, nil
}
