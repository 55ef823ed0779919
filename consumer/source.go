package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// ErrNotFound: there is nothing at the URL, or nothing any more.
var ErrNotFound = errors.New("not found")

// A Source is what a [Client] reads. A client without one reads from servers, by HTTP.
type Source interface {
	// Get asks once for what is at a URL. If it ends ctx, or ctx ends, reading the body
	// may fail. The error matches [ErrNotFound] if there is nothing at the URL, and
	// [ErrOrigin] if the URL does not lead to this source. The client asks again after
	// any other error, unless that has a method Permanent() bool that returns true.
	Get(ctx context.Context, q Request) (*Response, error)
}

// A Kind is what a URL leads to.
type Kind int

// The kinds.
const (
	FeedPage Kind = iota // by its own URL, or by that of the feed, which leads to the newest
	SnapshotPage
	SnapshotIndex
)

// A Request says what to get.
type Request struct {
	URL  string
	Kind Kind
	Head bool // without the body
	// ETag, if not empty, asks for the page only if it has another one by now.
	ETag string
	// Wait is how long to hold the request, if the page still has the ETag, until there
	// is something new; a source that cannot do so answers at once.
	Wait time.Duration
	// Offset, if not 0, asks for the bytes of the page from there on.
	Offset int64
}

// An Answer says what a [Response] has.
type Answer int

// The answers.
const (
	Whole       Answer = iota // all of it
	Part                      // what was asked for by Request.Offset
	NotModified               // it has the ETag that was asked for
	Empty                     // the feed is there, and has no entity yet
)

// A Response describes what is at a URL.
type Response struct {
	Answer Answer
	URL    string // where it was found: the URL that was asked for, but for redirects
	// Own is the URL of this very thing, if the one that was asked for may lead to another
	// one the next time; else empty.
	Own  string
	ETag string

	// Of a page:
	Boundary     string
	LastModified time.Time // in whole seconds; zero if it is not known, of a page of a snapshot
	// Of a page of a feed. With NotModified, the zero Links do not say anything.
	Links feed.Links
	Chain feed.Chain

	// Index is what Body holds, of a [SnapshotIndex], if the source has it at hand; else nil.
	Index *snapshot.Index

	Header http.Header // nil, but of HTTP
	Body   io.ReadCloser
	// Verified says that the end of Body comes only if all of it is as it was written or
	// sent, so that it need not be checked again.
	Verified bool
}

// A response is a Response whose body can be abandoned.
type response struct {
	*Response
	cancel func() // makes a Read of Body return
}

// send makes a request until there is an answer, as often as the configuration
// says.
func (s *session) send(q Request) (*response, error) {
	retry := s.newRetry()
	for {
		r, err := s.try(q)
		if err == nil {
			return r, nil
		}
		if err := retry.pause(s.ctx, err); err != nil {
			return nil, err
		}
	}
}

// try makes a request once.
func (s *session) try(q Request) (*response, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	limit := s.headerTimeout(q)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w of %v", errHeaderTimeout, limit)) })
	resp, err := s.source.Get(ctx, q)
	if !timer.Stop() && err == nil {
		resp.Body.Close() // the timer won: the body is cancelled already
		err = context.Cause(ctx)
	}
	if err != nil {
		err = s.requestError(q.URL, err, context.Cause(ctx))
		cancel(nil)
		return nil, err
	}
	if s.web == nil {
		resp.Body = &sourceBody{resp.Body, s, q.URL}
	}
	return &response{resp, func() { cancel(nil) }}, nil
}

// A sourceBody is the body of an answer of a [Source], whose errors are those of a request.
type sourceBody struct {
	io.ReadCloser
	s   *session
	url string
}

func (b *sourceBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.s.requestError(b.url, err, nil)
	}
	return n, err
}

// pollMargin is how much later than asked for the answer of a held request may be.
const pollMargin = 10 * time.Second

// headerTimeout returns how long a request may take until its answer begins.
func (s *session) headerTimeout(q Request) time.Duration {
	if q.Wait > 0 {
		return q.Wait + min(pollMargin, s.config.HeaderTimeout)
	}
	return s.config.HeaderTimeout
}

var errHeaderTimeout = errors.New("no response header within the time limit")

// requestError makes the error of a request that got no answer.
func (s *session) requestError(target string, err, cause error) error {
	if ended := s.ctx.Err(); ended != nil {
		return ended
	}
	switch {
	case errors.Is(cause, errHeaderTimeout):
		if s.web != nil {
			s.web.client.CloseIdleConnections() // which may be as dead
		}
		return &transportError{url: target, err: cause}
	case s.web != nil:
		return err // it says all
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrOrigin):
		return fmt.Errorf("get %s: %w", shown(target), err)
	}
	return &transportError{url: target, err: err}
}
