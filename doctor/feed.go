package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// A visit is one examination of a feed on a server.
type visit struct {
	config Config
	client *http.Client
	home   *url.URL // the URL that was given: its origin gets the credentials
	feed   *url.URL // the entry point, after redirects and the server's directory
	hops   []hop    // redirects on the way there
	entry  *answer  // the newest page, without a content coding
}

type check struct {
	name string
	why  string // why it matters
	run  func(*visit, context.Context) result
}

// checks returns the checks of a feed whose newest page is available.
func checks() []check {
	return []check{
		{"redirects", "credentials are sent only to the given origin, and consumers do not follow links to others", (*visit).checkRedirects},
		{"tls", "anyone on the network path can read and change what is sent, including credentials", (*visit).checkTLS},
		{"clock", "consumers find their position by time, and a clock that is ahead stops producers", (*visit).checkClock},
		{"body", "a consumer refuses an incomplete page, and cannot detect a changed one", (*visit).checkBody},
		{"link", "consumers follow the Link header from page to page; without it they see only the newest page", (*visit).checkLink},
		{"origin", "consumers do not follow links to an origin other than the feed's", (*visit).checkOrigin},
		{"last-modified", "consumers find their position by the time of each page", (*visit).checkLastModified},
		{"head", "consumers find their position with HEAD", (*visit).checkHead},
		{"etag", "without a strong ETag every poll transfers the whole newest page", (*visit).checkETag},
		{"304", "every poll transfers the whole newest page", (*visit).checkNotModified},
		{"range", "a waiting consumer transfers the whole newest page for each new entity", (*visit).checkRange},
		{"coding", "a cache, or a consumer that resumes, may combine parts of different representations", (*visit).checkCoding},
		{"cache", "consumers see new entities late, or alternate between states", (*visit).checkCache},
		{"immutable", "pages that never change are transferred again and again", (*visit).checkImmutable},
		{"wait", "consumers cannot wait for new entities and have to poll", (*visit).checkWait},
	}
}

// Feed examines the feed at rawURL and the connection to it, or the first feed of the
// server at rawURL. It returns an error only if the URL is invalid or ctx ends.
func Feed(ctx context.Context, rawURL string, c Config) ([]Finding, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("examine feed: its URL must be http(s)://HOST/PATH, without credentials")
	}
	for _, allowed := range c.AllowOrigins {
		if o, err := url.Parse(allowed); err != nil || o.Scheme != "http" && o.Scheme != "https" || o.Host == "" {
			return nil, fmt.Errorf("examine feed: %q is not an origin such as https://pages.example.com", allowed)
		}
	}
	u.Fragment = ""
	if c.Wait == 0 {
		c.Wait = 30 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	v := &visit{config: c, home: u, feed: u, client: &http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	findings := []Finding{finding("reach", "no one can read the feed", v.reach(ctx))}
	for _, check := range checks() {
		r := skipped("the newest page could not be requested")
		if v.entry != nil {
			r = v.run(ctx, check)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("examine %s: %w", u.Redacted(), context.Cause(ctx))
		}
		findings = append(findings, finding(check.name, check.why, r))
	}
	return findings, nil
}

// maxReruns is how many times a check is repeated because the feed changed in the meantime.
const maxReruns = 3

// run runs a check. It repeats a failed check if the page changed in the meantime.
func (v *visit) run(ctx context.Context, c check) result {
	for try := 0; ; try++ {
		r := c.run(v, ctx)
		if r.level == OK || r.level == Skipped || try == maxReruns {
			return r
		}
		before := v.entry
		if err := v.readEntry(ctx); err != nil || v.entry.body.sum == before.body.sum {
			v.entry = before
			return r
		}
	}
}
