package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/feedctl/feedctl/internal/s3fault"
)

// s3Command measures "feedctl publish" of a file to an S3 server, with and without a delay of each
// request. To save memory, the command has fewer requests in flight than a program that uses the
// library. With a delay, both sides send their requests through the same proxy.
func (b *bench) s3Command() (err error) {
	endpoint, stop, err := b.startS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	lines, remove, err := b.linesFile(int(b.s3Bytes / entitySize))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
		if err := b.s3CommandAt(endpoint, latency, lines); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) s3CommandAt(endpoint string, latency time.Duration, lines string) error {
	if latency > 0 {
		server, err := url.Parse(endpoint)
		if err != nil {
			return err
		}
		proxy := httptest.NewServer(s3fault.Proxy(server, func(s3fault.Request) s3fault.Fault { return s3fault.Delay(latency) }))
		defer proxy.Close()
		endpoint = proxy.URL
	}
	s := &s3Bench{bench: b, endpoint: endpoint} // the delay is added beyond the endpoint
	p, took, size, err := s.publishCommand(lines)
	if err != nil {
		return err
	}
	other, err := s.putObjects(size, parallel)
	if err != nil {
		return err
	}
	most := map[time.Duration]float64{0: 1.3, 50 * time.Millisecond: 1.4}[latency]
	name := fmt.Sprintf("S3 +%v: feedctl publish 1 KB", latency)
	s.report.add(name, "s", took.Seconds(), other.took.Seconds(), s3OtherName, atMostRatio(most))
	b.reportMemory(fmt.Sprintf("feedctl publish to S3 +%v", latency), p)
	return nil
}

// publishCommand publishes the lines of a file, and returns how many bytes were
// stored.
func (s *s3Bench) publishCommand(lines string) (p *process, took time.Duration, size int64, err error) {
	store, err := s.open()
	if err != nil {
		return nil, 0, 0, err
	}
	defer func() { err = errors.Join(err, store.Close(), s.clear()) }()
	at := fmt.Sprintf("s3://%s/%s?region=us-east-1&path_style=true&endpoint=%s", s3Bucket, s.prefix(), url.QueryEscape(s.endpoint))
	p, took, err = s.bench.run(nil, s.feedctl, "publish", "bench", lines, "--key", "/id", "--store", at)
	if err != nil {
		return nil, 0, 0, err
	}
	size, err = s.stored(store)
	return p, took, size, err
}
