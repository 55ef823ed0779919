package consumer

import (
	"context"
	"sync"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/page"
)

// A session is one use of a Client: one iteration, or one run of a Job. It owns the
// source and the goroutines that end with it.
type session struct {
	*Client
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
	source  Source
	web     *httpSource // source, if it is an *httpSource; otherwise nil

	// Only one page is parsed at a time, so the parser and the entity are reused.
	parser *page.Reader
	entity Entity

	origin  origin // origin of the positions in the feed
	follow  bool   // wait for new entities at the end of the feed
	undated bool   // warnUndated has logged
}

// open starts a session for a URL passed by a caller, and returns the URL without its
// user name and password. The session must be closed.
func (c *Client) open(ctx context.Context, raw string) (*session, string, error) {
	s, at := &session{Client: c, source: c.config.Source, follow: c.config.Follow}, raw
	if s.source == nil {
		web, clean, err := newHTTPSource(s, raw)
		if err != nil {
			return nil, "", err
		}
		s.source, s.web, at = web, web, clean
		s.announce(feed.Position{})
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.parser = page.NewReader(nil, "", page.ReaderOptions{MaxPart: c.config.MaxEntity, MaxWhole: c.config.MaxWhole, Strict: true})
	return s, at, nil
}

// close ends all requests and waits for all goroutines.
func (s *session) close() {
	s.cancel()
	s.workers.Wait()
}

// trust permits requests to the origin of another URL passed by the caller. That origin does not
// receive the credentials. An invalid URL is reported when it is used.
func (s *session) trust(raw string) {
	if u, err := parseURL(raw); err == nil && s.web != nil {
		s.web.trusted = append(s.web.trusted, origins.Of(u))
	}
}
