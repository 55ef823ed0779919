package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// The feed to catch up with, and the latency of its server.
const (
	catchUpPages  = 1000
	catchUpEntity = 100_000 // bytes: few entities, so that the network is measured and not JSON

	catchUpLatency = 50 * time.Millisecond // of each request
)

// catchUp consumes a feed from a server behind a network with latency, with its page index and
// without.
func (b *bench) catchUp() error {
	dir := filepath.Join(b.dir, "catchup")
	size, err := b.fillCatchUp(dir)
	if err != nil {
		return err
	}
	s, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	return errors.Join(b.catchUpWith(s, size), s.interrupt())
}

func (b *bench) catchUpWith(s *server, size int64) error {
	walked, err := b.readFar(s, false)
	if err != nil {
		return err
	}
	ours, err := b.readFar(s, true)
	if err != nil {
		return err
	}
	megabytes := float64(size) / 1e6
	b.report.add("catch up, +50 ms", "MB/s", megabytes/ours.Seconds(), megabytes/walked.Seconds(), "the same without the page index", atLeastRatio(8))
	return nil
}

// readFar returns how long it takes to read the feed if each request is delayed. If indexed is
// false, pages have no link to the page index.
func (b *bench) readFar(s *server, indexed bool) (time.Duration, error) {
	var transport http.RoundTripper = consumer.NewTransport(10)
	if !indexed {
		transport = withoutIndex{transport}
	}
	client, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: s3fault.Latency(transport, catchUpLatency)}})
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	begun := time.Now()
	for _, err := range client.Entities(b.ctx, s.url+layout.FeedPath("bench"), consumer.Beginning()) {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}

// withoutIndex removes the links to the page index from responses.
type withoutIndex struct{ http.RoundTripper }

func (t withoutIndex) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Header["Link"] = slices.DeleteFunc(response.Header["Link"], func(link string) bool { return strings.Contains(link, `"timemap"`) })
	}
	return response, err
}

// fillCatchUp makes a feed and returns the total size of its bodies.
func (b *bench) fillCatchUp(dir string) (size int64, err error) {
	store, err := file.New(dir)
	if err != nil {
		return 0, err
	}
	f, err := producer.Open(b.ctx, store, "bench", producer.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for n, page := 0, int64(0); page < catchUpPages; n++ {
		e := newEntity(n)
		e.Body = fmt.Appendf(nil, `{"id":%d,"text":"%s"}`, n, bytes.Repeat([]byte{'x'}, catchUpEntity))
		receipt, err := f.Publish(b.ctx, e)
		if err != nil {
			return 0, err
		}
		page, size = receipt.Page, size+int64(len(e.Body))
	}
	return size, nil
}
