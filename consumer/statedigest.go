package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/digest"
)

// ErrNoDigest means that a feed does not link to a state digest.
var ErrNoDigest = errors.New("the feed has no state digest")

// Digest requests the root of the newest state digest of the feed at a URL, to which the feed
// links with the relation "describedby". URLs in the position of the digest are absolute. Nodes and
// leaves are requested when they are read. The error matches [ErrNoDigest] if there is no link, or
// if its target does not exist. The client must not have a Source.
func (c *Client) Digest(ctx context.Context, feedURL string) (*digest.Reader, error) {
	s, at, err := c.open(ctx, feedURL)
	if err != nil {
		return nil, err
	}
	defer s.close()
	entry, err := s.send(Request{URL: at, Kind: FeedPage, Head: true})
	if err != nil {
		return nil, err
	}
	entry.Body.Close()
	if entry.Links.DescribedBy == "" {
		return nil, fmt.Errorf("get %s: %w", shown(at), ErrNoDigest)
	}
	resp, err := s.send(Request{URL: entry.Links.DescribedBy, Kind: StateDigest})
	var status *StatusError
	if errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w: %w", ErrNoDigest, err)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	own := resp.URL
	if resp.Own != "" {
		own = resp.Own
	}
	base, err := url.Parse(own)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", shown(own), err)
	}
	root, err := digest.ParseRoot(resp.Body)
	if err == nil {
		err = root.Resolve(base)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", shown(own), err)
	}
	return &digest.Reader{Root: root, Objects: &digestObjects{c, feedURL, base}}, nil
}

// digestObjects reads the nodes and leaves of a state digest from a server.
type digestObjects struct {
	client  *Client
	feedURL string   // has the credentials
	root    *url.URL // of the root
}

// Get implements [digest.Getter].
func (d *digestObjects) Get(ctx context.Context, name digest.Hash) ([]byte, error) {
	s, _, err := d.client.open(ctx, d.feedURL)
	if err != nil {
		return nil, err
	}
	defer s.close()
	at := d.root.ResolveReference(&url.URL{Path: "nodes/" + name.String()}).String()
	retry := s.newRetry()
	for {
		data, err := s.tryDigestObject(at)
		if err == nil {
			return data, nil
		}
		if err := retry.pause(s.ctx, err); err != nil {
			return nil, err
		}
	}
}

func (s *session) tryDigestObject(at string) ([]byte, error) {
	resp, err := s.try(Request{URL: at, Kind: StateDigest})
	if err != nil {
		return nil, err
	}
	defer resp.cancel()
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, digest.MaxObject+1))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", shown(at), err)
	}
	return data, nil
}
