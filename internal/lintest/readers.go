package lintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

// A ChainReader reads a feed in the store.
type ChainReader struct {
	Store storage.Store
	Feed  string
	// Cold makes each read find the newest page from scratch.
	Cold bool

	reader *chain.Reader
}

// Read implements [Reader].
func (r *ChainReader) Read(ctx context.Context) (ids []string, err error) {
	if r.reader == nil || r.Cold {
		r.reader = chain.NewReader(r.Store, r.Feed)
	}
	for n := int64(1); ; n++ {
		p, object, err := r.reader.Open(ctx, n, 0, -1)
		if errors.Is(err, chain.ErrNoFeed) || errors.Is(err, chain.ErrNoPage) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		if ids, err = appendIDs(ids, p, object.Body); err != nil {
			return nil, fmt.Errorf("read page %d: %w", n, err)
		}
		if !p.Closed {
			return ids, nil
		}
	}
}

func appendIDs(ids []string, p *chain.Page, body io.ReadCloser) ([]string, error) {
	defer body.Close()
	parts := multipart.NewReader(p.Whole(body), p.Boundary)
	for n := range p.Entities {
		part, err := parts.NextRawPart()
		if err != nil {
			return nil, fmt.Errorf("after %d of %d entities: %w", n, p.Entities, err)
		}
		ids = append(ids, part.Header.Get("Content-ID"))
	}
	if part, err := parts.NextRawPart(); err == nil {
		return nil, fmt.Errorf("after %d entities there is another: %v", p.Entities, part.Header)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after %d entities: %w", p.Entities, err)
	}
	return ids, nil
}

// A ConsumerReader reads a feed as consumers do, from a server in this process.
type ConsumerReader struct {
	client *consumer.Client
	url    string
}

// NewConsumerReader starts a server on the store.
func NewConsumerReader(store storage.Store, feedName string) (*ConsumerReader, error) {
	s, err := server.New(store, server.Config{})
	if err != nil {
		return nil, err
	}
	client, err := consumer.New(consumer.Config{
		HTTPClient: &http.Client{Transport: inprocess.Transport(s)},
		Retry:      consumer.RetryConfig{Min: time.Millisecond, Max: time.Millisecond},
	})
	return &ConsumerReader{client: client, url: "http://test/feeds/" + feedName}, err
}

// Read implements [Reader].
func (r *ConsumerReader) Read(ctx context.Context) (ids []string, err error) {
	for e, err := range r.client.Entities(ctx, r.url, consumer.Beginning()) {
		var status *consumer.StatusError
		if errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
			return nil, nil // nothing was published yet
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, e.ContentID)
	}
	return ids, nil
}
