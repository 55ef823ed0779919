package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/tcp"
)

// Config configures a [Client]. The zero Config reads a feed to its end, with the
// default of each field.
type Config struct {
	// Source, if not nil, is read instead of HTTP servers; package consumer/fromstore provides a
	// Source that reads a store. With a Source, HTTPClient, Header, Credentials, Announce and
	// AllowOrigins are ignored.
	Source Source
	// HTTPClient makes the requests; redirects always follow the rules of
	// [Config.AllowOrigins]. nil means a client with the transport of [NewTransport]. Its Timeout must be
	// 0, because it would interrupt large pages and long-polls; use HeaderTimeout and IdleTimeout. A
	// request is not repeated if the transport's error has a method Permanent() bool that returns
	// true.
	HTTPClient *http.Client
	// Header is added to each request to the origin that receives the credentials,
	// since it may contain secrets. It replaces fields that the client sets itself.
	// User-Agent and Accept-Encoding are not secret and are sent to every origin.
	Header http.Header
	// Credentials are sent only to the origin of the URL passed to the iterator or
	// the [Job]. If they are empty, a user name and password in that URL are used.
	Credentials Credentials
	// Announce is the name of the consumer. Each request to the origin of the feed carries the name
	// and the position that a [Job] has committed, so that the operators of the server see who reads
	// the feed and how far behind each reader is; see [feed.Announcement]. The name must not be a
	// secret. Requests to other origins do not carry it, even after a redirect. "" means nothing is
	// announced.
	Announce string
	// AllowOrigins are further origins ("https://pages.example.com") that
	// links and redirects may lead to. They are never sent credentials.
	AllowOrigins []string

	// MaxWhole is the size, in bytes, of the largest entity body that is held in memory; larger bodies
	// are streams. Zero means 1 MiB.
	MaxWhole int
	// MaxEntity is the size, in bytes, of the largest entity body that is accepted. Zero means that it is limited only by
	// MaxPage.
	MaxEntity int64
	// MaxPage is the size, in bytes, of the largest page that is accepted, after decompression. Zero means 16
	// GiB.
	MaxPage int64
	// ReadAhead is how many bytes of a page are buffered before they are parsed. In a feed, the
	// current page and the next one are buffered, and eight more while many pages are still to be read
	// and the server has an index of them. In a snapshot, Concurrency pages are buffered. Zero means 1 MiB.
	ReadAhead int
	// MaxHeld is the largest page, in bytes, that is verified before any of its entities is yielded:
	// against Repr-Digest or Content-Digest (RFC 9530), or the checksum of its content coding. A page
	// that is read ahead is also held: the next page of a feed if it is at most MaxHeld, the pages
	// after it only if they are at most ReadAhead. The entities of a larger page are yielded as they
	// arrive, except that the last one is yielded only once the page is verified. Zero means 4 MiB.
	MaxHeld int
	// MaxPages is the maximum number of pages that a crawl goes back from the entry point, since a
	// server may generate prev links without end. Zero means 10,000,000.
	MaxPages int
	// Concurrency is how many pages of a snapshot are requested concurrently. Zero means 4.
	Concurrency int

	// Follow makes the iterators of a feed wait for more entities at its end, and
	// for its first entity if there is none yet. Without Follow, an empty feed
	// (status 204) is read without error, and one that does not exist (404) is a
	// [*StatusError]. With a Content-ID to resume from, 404 is always an error: the
	// feed has been removed.
	Follow bool
	// Wait is how long the server is asked to hold a long-poll (RFC 7240,
	// "Prefer: wait"), in whole seconds. Zero means 30 s.
	Wait time.Duration
	// PollInterval is the longest pause between polls of a server that does not
	// hold requests. The first pauses are shorter. Zero means 10 s.
	PollInterval time.Duration

	// HeaderTimeout is how long a request may take until its response header arrives.
	// A long-poll may take at most 10 s longer than Wait. After this time, its connection is
	// abandoned, and another one is used. Zero means 30 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long the client waits for IdleBytes of a response body.
	// Zero means 30 s.
	IdleTimeout time.Duration
	// IdleBytes is how many bytes must arrive within each IdleTimeout, unless the body
	// ends. Zero means 1, so that any progress is enough.
	IdleBytes int
	// Retry configures how requests are repeated.
	Retry RetryConfig

	// Missing, if not nil, is called when the client follows a feed that does not exist, and begins to
	// wait for the feed.
	Missing func(ctx context.Context)
	// Idle, if not nil, is called when the client follows and a request for new entities, made after
	// the previous call of Idle, has found none. A [Job] has then committed all that it has read.
	Idle func()

	// Ways is a directory in which the client remembers pages that long crawls have passed, so that
	// the next crawl is shorter: for each of the last 256 feeds, a file of up to 1,024 URLs. This is
	// useful with servers that have only prev and next links. The client creates the directory. It is
	// not an error if files cannot be written or read. URLs with a signature are not remembered. If
	// Ways is "", no pages are remembered.
	Ways string
	// Searching, if not nil, is called for each page of a crawl, and with the zero Search at its end.
	Searching func(Search)

	// Logger logs retries and waits. nil means no logging.
	Logger *slog.Logger
}

// Credentials authorize requests. They are a user name and password (RFC 7617) or a
// bearer token (RFC 6750).
type Credentials struct {
	Username, Password string
	Bearer             string
}

// RetryConfig configures how requests that failed with a [Retryable] error are repeated. The pause
// doubles each time and is shortened at random by up to a half.
type RetryConfig struct {
	// Attempts is the maximum number of attempts without progress. Zero means 8, or no limit with Follow;
	// negative: no limit.
	Attempts int
	// Min and Max are the shortest and the longest pause. Zero means 250 ms and 30 s.
	Min, Max time.Duration
	// MaxRetryAfter is the longest pause that a server can request with Retry-After. Zero means 5 min.
	MaxRetryAfter time.Duration
	// Failed, if not nil, is called before each pause, with the error of the attempt. An error from
	// a sink matches [ErrSinkUnavailable].
	Failed func(error)
}

// A Client reads feeds and snapshots. It is safe for concurrent use.
type Client struct {
	config  Config
	allowed map[string]bool // origins
	buffers sync.Pool       // of *[]byte, at least config.ReadAhead long
	// aheadBuffers holds buffers for pages that are requested ahead: *[]byte of length
	// config.ReadAhead.
	aheadBuffers sync.Pool
}

// New returns a Client, or an error if c is invalid.
func New(c Config) (*Client, error) {
	c.MaxWhole = cmp.Or(c.MaxWhole, 1<<20)
	c.MaxPage = cmp.Or(c.MaxPage, 16<<30)
	c.ReadAhead = cmp.Or(c.ReadAhead, 1<<20)
	c.MaxHeld = cmp.Or(c.MaxHeld, 4<<20)
	c.MaxPages = cmp.Or(c.MaxPages, 10_000_000)
	c.Concurrency = cmp.Or(c.Concurrency, 4)
	c.Wait = cmp.Or(c.Wait, 30*time.Second)
	c.PollInterval = cmp.Or(c.PollInterval, 10*time.Second)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	if c.Follow {
		c.Retry.Attempts = cmp.Or(c.Retry.Attempts, -1)
	}
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, 8)
	c.Retry.Min = cmp.Or(c.Retry.Min, 250*time.Millisecond)
	c.Retry.Max = cmp.Or(c.Retry.Max, 30*time.Second)
	c.Retry.MaxRetryAfter = cmp.Or(c.Retry.MaxRetryAfter, 5*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{Transport: NewTransport(max(c.Concurrency, pagesAhead))}
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure consumer: %w", err)
	}
	client := &Client{config: c, allowed: make(map[string]bool)}
	newBuffer := func() any {
		b := make([]byte, c.ReadAhead)
		return &b
	}
	client.buffers.New, client.aheadBuffers.New = newBuffer, newBuffer
	for _, raw := range c.AllowOrigins {
		u, err := parseURL(raw)
		if err != nil {
			return nil, fmt.Errorf("configure consumer: allowed origin: %w", err)
		}
		client.allowed[origins.Of(u)] = true
	}
	return client, nil
}

func (c *Config) check() error {
	for name, value := range map[string]int64{
		"MaxWhole": int64(c.MaxWhole), "MaxPage": c.MaxPage, "ReadAhead": int64(c.ReadAhead), "MaxHeld": int64(c.MaxHeld),
		"MaxPages": int64(c.MaxPages), "Concurrency": int64(c.Concurrency), "Wait": int64(c.Wait), "PollInterval": int64(c.PollInterval),
		"HeaderTimeout": int64(c.HeaderTimeout), "IdleTimeout": int64(c.IdleTimeout),
		"Retry.Min": int64(c.Retry.Min), "Retry.Max": int64(c.Retry.Max),
	} {
		if value < 1 {
			return fmt.Errorf("%s must not be negative", name)
		}
	}
	if c.MaxEntity < 0 {
		return errors.New("MaxEntity must not be negative")
	}
	if c.Credentials.Bearer != "" && c.Credentials.Username != "" {
		return errors.New("credentials have both a user name and a bearer token")
	}
	if c.Announce != "" && c.Announce != feed.CleanConsumerName(c.Announce) {
		return fmt.Errorf("Announce %q must be at most %d printable ASCII characters, without leading or trailing spaces", c.Announce, feed.MaxConsumerName)
	}
	if c.HTTPClient.Timeout != 0 {
		return errors.New("HTTPClient.Timeout must be 0: use HeaderTimeout and IdleTimeout")
	}
	return nil
}

// NewTransport returns the transport of a client without an HTTPClient. It is for up to
// concurrency concurrent requests to one server, and detects broken connections.
func NewTransport(concurrency int) *http.Transport {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       tcp.Dialer(10 * time.Second).DialContext,
		ForceAttemptHTTP2: true,
		// When a request times out, a connection that it shares with others is not closed.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    concurrency + 2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
	}
}

// CloseIdleConnections closes connections that are kept open for reuse.
func (c *Client) CloseIdleConnections() { c.config.HTTPClient.CloseIdleConnections() }

// parseURL parses an absolute HTTP URL. Its errors do not repeat the URL's
// user name and password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("parse URL: malformed URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("parse URL %q: must begin with http:// or https:// and a host", redact(raw))
	}
	return u, nil
}
