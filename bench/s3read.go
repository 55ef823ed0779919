package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	web "github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// reads compares reading a feed through a server, page by page, with plain requests for the same
// objects, whose keys are known beforehand.
func (s *s3Bench) reads() (err error) {
	s.run++
	prefix := fmt.Sprintf("read-%v-%d", s.latency, s.run)
	pages, err := s.fillForReading(prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.clear()) }()
	other, err := s.getObjects(prefix, pages)
	if err != nil {
		return err
	}
	const otherName = "GetObject of the same pages, 16 in flight"
	dir := filepath.Join(s.dir, "cache-"+prefix)
	// Without latency, the two sides are limited by their CPU time.
	least := atLeastRatio(map[time.Duration]float64{0: 0.5, 50 * time.Millisecond: 0.9}[s.latency])
	for _, way := range []struct {
		name  string
		cache bool
		target
	}{
		{"no cache on disk", false, least},
		{"cold cache on disk", true, least},
		{"warm cache on disk", true, noTarget()},
	} {
		var cache *pagecache.Cache
		if way.cache {
			if cache, err = pagecache.Open(pagecache.Config{Dir: dir, Size: 4 * s.s3Bytes}); err != nil {
				return err
			}
		}
		ours, err := s.readThroughServer(prefix, cache)
		if cache != nil {
			err = errors.Join(err, cache.Close())
		}
		if err != nil {
			return err
		}
		s.report.add(fmt.Sprintf("S3 +%v: read a feed, %s", s.latency, way.name), "MB/s", ours/1e6, other/1e6, otherName, way.target)
	}
	return nil
}

func (s *s3Bench) storeAt(prefix string, transport func(http.RoundTripper) http.RoundTripper) (storage.Store, error) {
	return s3.Connect(s.ctx, s3.Config{
		Bucket: s3Bucket, Prefix: prefix, Region: "us-east-1", Endpoint: s.endpoint, PathStyle: true, Transport: transport,
	})
}

// fillForReading publishes the feed that is read, without delay, and returns the
// number of its pages.
func (s *s3Bench) fillForReading(prefix string) (pages int64, err error) {
	store, err := s.storeAt(prefix, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f, err := producer.Open(s.ctx, store, "bench", producer.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	count, batch := s.s3Entities()
	for n := 0; n*s3Batch < count; n++ {
		receipt, err := f.Publish(s.ctx, batch(n)...)
		if err != nil {
			return 0, err
		}
		pages = receipt.Page
	}
	return pages, nil
}

// getObjects reads the objects of the pages and returns bytes a second.
func (s *s3Bench) getObjects(prefix string, pages int64) (float64, error) {
	client := s.client()
	sizes := make([]int64, pages)
	took, err := parallel(s.ctx, s3InFlight, int(pages), func(ctx context.Context, n int) error {
		object, err := client.GetObject(ctx, &awss3.GetObjectInput{
			Bucket: aws.String(s3Bucket), Key: aws.String(prefix + "/" + layout.FeedPage("bench", int64(n)+1)),
		})
		if err != nil {
			return err
		}
		defer object.Body.Close()
		sizes[n], err = io.Copy(io.Discard, object.Body)
		return err
	})
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	return float64(total) / took.Seconds(), err
}

// readThroughServer has a new server read the feed, for a client that starts at the first page and
// follows the next links, and returns bytes a second.
func (s *s3Bench) readThroughServer(prefix string, cache *pagecache.Cache) (rate float64, err error) {
	store, err := s.storeAt(prefix, s.delayed)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	handler, err := web.New(store, web.Config{Cache: cache})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, handler.Close(s.ctx)) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	listening := web.NewHTTPServer(handler, slog.New(slog.DiscardHandler))
	go listening.Serve(listener) //nolint:errcheck // it ends when it is closed
	defer listening.Close()
	start := time.Now()
	total, err := walk(s.ctx, "http://"+listener.Addr().String()+layout.FeedPagePath("bench", 1))
	return float64(total) / time.Since(start).Seconds(), err
}

// walk reads the page at url and all pages after it, and returns their total size.
func walk(ctx context.Context, url string) (total int64, err error) {
	for url != "" {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		r.Header.Set("Accept-Encoding", "identity")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return 0, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("GET %s: %s", url, response.Status)
		}
		links, err := feed.ParseLinks(response.Request.URL, response.Header)
		if err != nil {
			return 0, err
		}
		total += n
		url = links.Next
	}
	return total, nil
}
