package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/credential"
)

// Feeds watches servers with feeds.
//
// A feedctl server lists the feeds that have changed (GET /changes): while nothing happens, such a server gets
// one request a minute, whatever the number of feeds. On other servers each feed costs a HEAD request: every 2 s
// after a change and eventually every minute, but a server gets at most 20 requests a second.
type Feeds struct {
	// Transport makes the requests. If it is nil, http.DefaultTransport is used.
	Transport http.RoundTripper
}

const (
	feedsTimeout = 30 * time.Second
	feedsAtOnce  = 4
	// feedsAgain is the time after which a server that does not list changes is asked for a list of changes
	// again.
	feedsAgain = 10 * time.Minute
)

// Watch implements [Source].
func (f Feeds) Watch(ctx context.Context, w *Watched) error {
	s := &feedServer{client: &http.Client{Transport: f.Transport}, watched: w}
	if w.Credential != "" {
		source, err := credential.ParseReference(w.Credential)
		if err != nil {
			return fmt.Errorf("watch %s: %w", w.Server, err)
		}
		c, err := source.Read()
		if err != nil {
			return fmt.Errorf("watch %s: %w", w.Server, err)
		}
		s.authorization = credential.Authorization(c)
	}
	for token := w.Position; ; token = "" {
		err := s.follow(ctx, token)
		if !errors.Is(err, errNoChanges) {
			return err
		}
		w.Logger.Debug("server does not list changes, comparing feeds", "error", err)
		p := poller{watched: w, fastest: 2 * time.Second, slowest: time.Minute, round: time.Second, most: 20, compare: s.compare}
		if err := p.run(ctx, feedsAgain); err != nil {
			return err
		}
	}
}

// A feedServer is a server that is watched.
type feedServer struct {
	client        *http.Client
	watched       *Watched
	authorization string
}

// do sends a request with header fields, given as names and values.
func (s *feedServer) do(ctx context.Context, method, path string, fields ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.watched.Server, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "feedctl")
	if s.authorization != "" {
		r.Header.Set("Authorization", s.authorization)
	}
	for n := 0; n < len(fields); n += 2 {
		r.Header.Set(fields[n], fields[n+1])
	}
	return s.client.Do(r)
}

// compare returns the states of feeds, without those that it cannot get. If the server asks its clients to wait,
// compare waits.
func (s *feedServer) compare(ctx context.Context, states map[string]string) (map[string]string, error) {
	pause := make(chan time.Duration, len(states))
	found, err := compareEach(ctx, states, feedsAtOnce, func(ctx context.Context, name, _ string) (string, error) {
		state, wait, err := s.state(ctx, name)
		pause <- wait
		return state, err
	})
	close(pause)
	longest := time.Duration(0)
	for wait := range pause {
		longest = max(longest, wait)
	}
	if longest > 0 {
		if err := backoff.Sleep(ctx, min(longest, feedsLongest)); err != nil {
			return nil, err
		}
	}
	return found, err
}

// feedsLongest limits the time that a server may ask its clients to wait.
const feedsLongest = 5 * time.Minute

// state requests the state of a feed, which identifies the feed's newest page. The result wait is how long the
// server asks its clients to wait.
func (s *feedServer) state(ctx context.Context, name string) (state string, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedsTimeout)
	defer cancel()
	response, err := s.do(ctx, http.MethodHead, "/feeds/"+name)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	switch h := response.Header; {
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone:
		return noFeed, 0, nil
	case response.StatusCode != http.StatusOK:
		return "", backoff.RetryAfter(h), fmt.Errorf("HEAD %s: status %s", response.Request.URL.Redacted(), response.Status)
	case h.Get("ETag") != "":
		return h.Get("ETag"), 0, nil
	default:
		return strings.Join([]string{h.Get("Link"), h.Get("Last-Modified"), h.Get("Content-Length")}, " "), 0, nil
	}
}
