package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// ErrNotFound means that there is no resource at a URL.
var ErrNotFound = errors.New("not found")

// A Source returns the pages and indexes that a [Client] reads. Without a Source, a client reads HTTP
// servers.
type Source interface {
	// Get makes one request for a URL. When ctx ends, reading the body may fail. The
	// error matches [ErrNotFound] if there is no resource at the URL, and [ErrOrigin] if the
	// URL does not belong to this source. The client repeats the request after any other error,
	// unless the error has a method Permanent() bool that returns true.
	Get(ctx context.Context, q Request) (*Response, error)
}

// A Kind is the kind of resource that a URL identifies.
type Kind int

// The kinds.
const (
	FeedPage Kind = iota // at its own URL, or at the URL of the feed, which leads to the newest page
	SnapshotPage
	SnapshotIndex
	PageIndex   // a tile of the index of a feed's pages (package pageindex)
	StateDigest // a root, node or leaf of a state digest (package digest)
)

// A Request describes a request to a [Source].
type Request struct {
	URL  string
	Kind Kind
	Head bool // without the body
	// ETag, if not empty, requests the page only if its entity tag is a different one.
	ETag string
	// Wait is how long to hold the request while ETag is the entity tag of the page; a source that
	// does not support this returns immediately.
	Wait time.Duration
	// Latest, if not zero, requests the newest of the snapshots at the URL of an index whose position
	// in the feed is not later than Latest; a source that does not support this returns another
	// snapshot.
	Latest time.Time
	// At, if not zero, requests the page to which the timegate at the URL leads: the last page of the
	// feed that is older than At, or else the oldest page (see [feed.Links]).
	At time.Time
	// Offset, if not 0, requests the bytes of the page from this offset on, or only Length of them if
	// Length is not 0. A source may return more.
	Offset, Length int64
}

// An Answer is the kind of a [Response].
type Answer int

// The answers.
const (
	Whole       Answer = iota // the whole resource
	Part                      // the bytes from Request.Offset on
	NotModified               // the page has Request.ETag
	Empty                     // the feed exists but has no entity yet
)

// A Response describes the resource at a URL.
type Response struct {
	Answer Answer
	URL    string // the requested URL, after redirects
	// Own is the URL of this snapshot or digest if the requested URL may later lead to another one;
	// otherwise it is empty.
	Own  string
	ETag string

	// Of a page:
	Boundary     string
	LastModified time.Time // in whole seconds; may be zero for a page of a snapshot
	// Links and Chain are those of a page of a feed. If NotModified is set and they are zero,
	// they are unknown.
	Links feed.Links
	Chain feed.Chain

	// Index is the parsed body of a [SnapshotIndex], or nil if the source does not parse it.
	Index *snapshot.Index

	Header http.Header // nil unless the resource was read over HTTP
	Body   io.ReadCloser
	// Verified means that Body ends with io.EOF only if it is undamaged, so that it need
	// not be checked again.
	Verified bool
}

// A response is a Response whose request can be cancelled.
type response struct {
	*Response
	cancel func() // makes a blocked Read of Body return
}

// send makes a request, and repeats it according to the configuration.
func (s *session) send(q Request) (*response, error) { return s.sendSome(q, math.MaxInt) }

// sendSome is like send, but makes at most the given number of attempts.
func (s *session) sendSome(q Request, attempts int) (*response, error) {
	retry := s.newRetry()
	for tries := 1; ; tries++ {
		r, err := s.try(q)
		if err == nil {
			return r, nil
		}
		if tries >= attempts {
			return nil, err
		}
		if err := retry.pause(s.ctx, err); err != nil {
			return nil, err
		}
		q.Wait = 0 // a server that works again should respond at once
	}
}

// try makes a request once.
func (s *session) try(q Request) (*response, error) { return s.tryWithin(s.ctx, q) }

// tryWithin makes a request once. It uses the given context, which must end no later than that of the
// session.
func (s *session) tryWithin(within context.Context, q Request) (*response, error) {
	ctx, cancel := context.WithCancelCause(within)
	limit := s.headerTimeout(q)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w of %v", errHeaderTimeout, limit)) })
	resp, err := s.source.Get(ctx, q)
	if !timer.Stop() && err == nil {
		resp.Body.Close() // the timer has already cancelled the request
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

// A sourceBody is the body of a response of a [Source]. It returns the same errors as a failed
// request.
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

// pollMargin is how much longer a server may hold a long-poll than requested.
const pollMargin = 10 * time.Second

// headerTimeout returns how long a request may take until its response begins.
func (s *session) headerTimeout(q Request) time.Duration {
	if q.Wait > 0 {
		return q.Wait + min(pollMargin, s.config.HeaderTimeout)
	}
	return s.config.HeaderTimeout
}

var errHeaderTimeout = errors.New("no response header within the time limit")

// requestError returns the error for a request to which there was no response.
func (s *session) requestError(target string, err, cause error) error {
	if ended := s.ctx.Err(); ended != nil {
		return ended
	}
	switch {
	case errors.Is(cause, errHeaderTimeout):
		if s.web != nil {
			s.web.client.CloseIdleConnections() // other connections may be broken, too
		}
		return &transportError{url: target, err: cause}
	case s.web != nil:
		return err // err needs no more context
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrOrigin):
		return fmt.Errorf("get %s: %w", shown(target), err)
	}
	return &transportError{url: target, err: err}
}
