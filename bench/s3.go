package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

const (
	s3Bucket    = "bench"
	s3AccessKey = "bench"
	s3SecretKey = "bench-secret"

	s3Object   = 1 << 20 // bytes of an object of the alternative
	s3InFlight = 16      // requests of the alternative at a time

	s3OtherName = "PutObject of the same bytes, 1 MiB each, 16 in flight"
)

// An s3Bench compares feedctl on an S3 server with plain requests to the same server. Each request is delayed
// by latency.
type s3Bench struct {
	*bench
	endpoint string
	latency  time.Duration
	run      int // makes prefixes that have not been used
}

// s3 measures publishing and snapshots on an S3 server on this machine,
// with and without a delay of each request. The alternative writes the same number of bytes as plain objects,
// 16 at a time.
func (b *bench) s3() (err error) {
	endpoint, stop, err := b.startS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
		s := &s3Bench{bench: b, endpoint: endpoint, latency: latency}
		if err := errors.Join(s.writes(), s.reads()); err != nil {
			return err
		}
	}
	return nil
}

// startS3 starts a server with an empty bucket.
func (b *bench) startS3() (endpoint string, stop func() error, err error) {
	root := filepath.Join(b.dir, "s3")
	if err := os.MkdirAll(filepath.Join(root, s3Bucket), 0o777); err != nil {
		return "", nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	p, err := b.start(nil, b.versitygw, "-a", s3AccessKey, "-s", s3SecretKey, "-p", address, "-q", "--keep-alive", "--health", "/health", "posix", root)
	if err != nil {
		return "", nil, fmt.Errorf("%w: run \"make versitygw\"", err)
	}
	s, err := b.ready(&server{p, "http://" + address}, "/health")
	if err != nil {
		return "", nil, err
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": s3AccessKey, "AWS_SECRET_ACCESS_KEY": s3SecretKey} {
		if err := os.Setenv(name, value); err != nil {
			return "", nil, errors.Join(err, s.interrupt())
		}
	}
	return s.url, s.interrupt, nil
}

// delayed returns the HTTP transport of both sides.
func (s *s3Bench) delayed(next http.RoundTripper) http.RoundTripper {
	if s.latency == 0 {
		return next
	}
	return s3fault.Latency(next, s.latency)
}

// open returns a store below a new prefix, after a first write, so that probing the server
// is not measured.
func (s *s3Bench) open() (storage.Store, error) {
	s.run++
	store, err := s3.Connect(s.ctx, s3.Config{
		Bucket: s3Bucket, Prefix: s.prefix(), Region: "us-east-1",
		Endpoint: s.endpoint, PathStyle: true, Transport: s.delayed,
	})
	if err != nil {
		return nil, err
	}
	if _, err := store.Create(s.ctx, "first", storage.Meta{}, storage.Bytes()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// prefix returns the prefix of the current run.
func (s *s3Bench) prefix() string { return fmt.Sprintf("run-%v-%d", s.latency, s.run) }

// client returns a client of the SDK with room for all connections, and without checksums other than the
// payload's SHA-256, which is part of the signature.
func (s *s3Bench) client() *awss3.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 2 * s3InFlight
	transport.DisableCompression = true
	return awss3.New(awss3.Options{
		Region: "us-east-1", BaseEndpoint: &s.endpoint, UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(s3AccessKey, s3SecretKey, ""),
		HTTPClient:                 &http.Client{Transport: s.delayed(transport)},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}

// writes measures publishing and snapshots. Pages have headers besides the entities' bodies, so
// more bytes are stored than published; PutObject stores the same number of bytes.
func (s *s3Bench) writes() error {
	publish, err := s.publishStore()
	if err != nil {
		return err
	}
	snapshot, err := s.snapshotStore()
	if err != nil {
		return err
	}
	other, err := s.putObjects(publish.stored, parallel)
	if err != nil {
		return err
	}
	inOrder, err := s.putObjects(publish.stored, inOrder)
	if err != nil {
		return err
	}
	most := map[time.Duration]float64{0: 1.2, 50 * time.Millisecond: 1.4}[s.latency]
	name := fmt.Sprintf("S3 +%v: ", s.latency)
	s.report.add(name+"publish 1 KB", "s", publish.took.Seconds(), other.took.Seconds(), s3OtherName, atMostRatio(most))
	s.report.add(name+"PutObject, as many ahead of the first that is missing", "s", inOrder.took.Seconds(), other.took.Seconds(), s3OtherName, noTarget())
	s.report.add(name+"publish 1 KB", "MB/s of bodies", publish.rate(s.s3Bytes), other.rate(other.stored), s3OtherName, noTarget())
	s.report.add(name+"publish 1 KB", "requests", float64(publish.requests), float64(other.requests), s3OtherName, noTarget())
	s.report.add(name+"snapshot of 1 KB", "MB/s", snapshot.rate(snapshot.stored), other.rate(other.stored), s3OtherName, atLeastRatio(0.8))
	s.report.add(name+"snapshot of 1 KB", "MB/s of bodies", snapshot.rate(s.s3Bytes), other.rate(other.stored), s3OtherName, noTarget())
	return nil
}

type putting struct {
	took     time.Duration
	requests uint64
	stored   int64
}

// rate returns how many MB were put in a second, given the number of bytes.
func (p putting) rate(bytes int64) float64 { return float64(bytes) / 1e6 / p.took.Seconds() }

// putObjects puts the given number of bytes, as plain objects.
func (s *s3Bench) putObjects(size int64, concurrently func(ctx context.Context, most, n int, do func(context.Context, int) error) (time.Duration, error)) (putting, error) {
	client, data := s.client(), bytes.Repeat(newEntity(1).Body, s3Object/entitySize+1)[:s3Object]
	s.run++
	prefix := fmt.Sprintf("plain-%v-%d/", s.latency, s.run)
	count := size / s3Object
	took, err := concurrently(s.ctx, s3InFlight, int(count), func(ctx context.Context, n int) error {
		_, err := client.PutObject(ctx, &awss3.PutObjectInput{
			Bucket: aws.String(s3Bucket), Key: aws.String(fmt.Sprint(prefix, n)), Body: bytes.NewReader(data),
		})
		return err
	})
	return putting{took, uint64(count), count * s3Object}, errors.Join(err, s.clear())
}

// parallel calls the function do for the numbers from 0 to n-1, with the given concurrency, and returns the
// duration.
func parallel(ctx context.Context, workers, n int, do func(context.Context, int) error) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				k := int(next.Add(1)) - 1
				if k >= n {
					return
				}
				if err := do(ctx, k); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), context.Cause(ctx)
}

// inOrder calls the function do for the numbers from 0 to n-1, and returns the duration. The call for number
// k begins when the one for number k-ahead has returned. It shows how fast parallel is if no object may be
// far ahead of the first one that is missing, as with the pages of a feed.
func inOrder(ctx context.Context, ahead, n int, do func(context.Context, int) error) (time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	start, done := time.Now(), make([]chan struct{}, n)
	for k := range n {
		done[k] = make(chan struct{})
		if k >= ahead {
			select {
			case <-done[k-ahead]:
			case <-ctx.Done():
				return 0, group.Wait()
			}
		}
		group.Go(func() error {
			defer close(done[k])
			return do(ctx, k)
		})
	}
	err := group.Wait()
	return time.Since(start), err
}

// s3Batch is how many entities are published at a time.
const s3Batch = 1000

// s3Entities returns a function that makes batches of entities. The entities share their bodies, so that the
// time to make them hardly counts.
func (s *s3Bench) s3Entities() (count int, batch func(n int) []*feed.Entity) {
	models := make([]*feed.Entity, s3Batch)
	for i := range models {
		models[i] = newEntity(i)
	}
	count = int(s.s3Bytes / entitySize)
	return count, func(n int) []*feed.Entity {
		first := n * s3Batch
		entities := make([]feed.Entity, min(s3Batch, count-first))
		pointers := make([]*feed.Entity, len(entities))
		for i := range entities {
			entities[i] = *models[i]
			pointers[i] = &entities[i]
		}
		return pointers
	}
}

func (s *s3Bench) publishStore() (put putting, err error) {
	store, err := s.open()
	if err != nil {
		return put, err
	}
	defer func() { err = errors.Join(err, store.Close(), s.clear()) }()
	f, err := producer.Open(s.ctx, store, "bench", producer.Config{})
	if err != nil {
		return put, err
	}
	before, start := requestsOf(store), time.Now()
	err = s.publishAll(f)
	put.took, put.requests = time.Since(start), requestsOf(store)-before
	if err = errors.Join(err, f.Close()); err != nil {
		return put, err
	}
	put.stored, err = s.stored(store)
	return put, err
}

// stored returns the total size of the objects of a store, in bytes.
func (s *s3Bench) stored(store storage.Store) (size int64, err error) {
	for entry, err := range store.List(s.ctx, "", "") {
		if err != nil {
			return 0, err
		}
		size += entry.Size
	}
	return size, nil
}

func requestsOf(store storage.Store) (n uint64) {
	counter, _ := storage.As[storage.Counter](store)
	for _, count := range counter.Requests() {
		n += count
	}
	return n
}

// publishAll publishes all entities, with as many of them waiting as the producer accepts.
func (s *s3Bench) publishAll(f *producer.Feed) error {
	w := f.Writer(producer.WriterOptions{MaxEntities: s3Batch, MaxBytes: math.MaxInt64, Ahead: math.MaxInt})
	for e, err := range s.sequence() {
		if err == nil {
			err = w.Add(s.ctx, e)
		}
		if err != nil {
			return cmp.Or(err, w.Close())
		}
	}
	return cmp.Or(w.Wait(s.ctx), w.Close())
}

func (s *s3Bench) snapshotStore() (put putting, err error) {
	store, err := s.open()
	if err != nil {
		return put, err
	}
	defer func() { err = errors.Join(err, store.Close(), s.clear()) }()
	start := time.Now()
	_, err = snapshots.Write(s.ctx, store, "bench", s.sequence(), snapshots.Config{})
	put.took = time.Since(start)
	if err != nil {
		return put, err
	}
	put.stored, err = s.stored(store)
	return put, err
}

func (s *s3Bench) sequence() iter.Seq2[*feed.Entity, error] {
	count, batch := s.s3Entities()
	return func(yield func(*feed.Entity, error) bool) {
		for n := 0; n*s3Batch < count; n++ {
			for _, e := range batch(n) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// clear empties the bucket, bypassing the server.
func (s *s3Bench) clear() error {
	entries, err := filepath.Glob(filepath.Join(s.dir, "s3", s3Bucket, "*"))
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(entry))
	}
	return err
}
