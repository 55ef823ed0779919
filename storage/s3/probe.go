package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/storage"
)

const (
	// privatePrefix begins the names of the driver's own objects. No key contains
	// its first character.
	privatePrefix = "!feedctl/"
	// probeKey is the object that records a successful probe.
	probeKey = privatePrefix + "probe"
	// probeText is the body of the object at probeKey, which is created only once: a different set
	// of checks needs another key.
	probeText = "feedctl probe 1: the server honours conditional writes\n"
	// triesPrefix begins the names of objects that a probe writes and deletes.
	triesPrefix = privatePrefix + "try-"

	// probeAge is the minimum age at which a probe's objects are swept, so that a running probe is
	// not disturbed.
	probeAge = time.Hour
	creators = 8 // number of concurrent creates in a probe
	// cleanTimeout limits the removal of the objects of a probe.
	cleanTimeout = 10 * time.Second
)

const unsafeAdvice = "use a server, or a version of it, that honours If-Match and If-None-Match on writes" +
	" and stores 2 KB of metadata, as S3 does; a proxy in between must forward them"

// A probeState holds what this process knows about the server from probes.
type probeState struct {
	good    atomic.Bool
	turn    chan struct{} // a semaphore held while probing
	refusal error         // why the server failed the probe; guarded by turn
}

// probed probes the server before the first write, unless the outcome of an earlier
// probe is known.
func (s *Store) probed(ctx context.Context) error {
	if s.probe.good.Load() {
		return nil
	}
	select {
	case s.probe.turn <- struct{}{}:
		defer func() { <-s.probe.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.probe.good.Load() || s.probe.refusal != nil {
		return s.probe.refusal
	}
	known, err := s.remembered(ctx)
	if err != nil {
		return fmt.Errorf("read the outcome of the probe of this server: %w", err)
	}
	if known {
		s.probe.good.Store(true)
		return nil
	}
	checks, err := s.tryOut(ctx)
	if err != nil {
		return fmt.Errorf("probe the server: %w", err)
	}
	if s.probe.refusal = verdict(checks); s.probe.refusal != nil {
		return s.probe.refusal
	}
	if err := s.remember(ctx); err != nil {
		return fmt.Errorf("record that the server has passed the probe: %w", err)
	}
	s.probe.good.Store(true)
	return nil
}

// readProbe reads the record of a successful probe, so that the first write need not read it.
// Meanwhile, a write that needs the record waits for readProbe, and readProbe waits for a running
// probe.
func (s *Store) readProbe(ctx context.Context) error {
	select {
	case s.probe.turn <- struct{}{}:
		defer func() { <-s.probe.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	known, err := s.remembered(ctx)
	if known && s.probe.refusal == nil {
		s.probe.good.Store(true)
	}
	return err
}

// verdict returns an error that lists the failed checks, or nil if there are none.
func verdict(checks []storage.Check) error {
	var details []string
	for _, c := range checks {
		if !c.OK {
			details = append(details, c.Name+": "+c.Detail)
		}
	}
	if details == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; %s", storage.ErrUnsafe, strings.Join(details, "; "), unsafeAdvice)
}

// remembered reports whether any process has recorded a successful probe.
func (s *Store) remembered(ctx context.Context) (known bool, err error) {
	err = s.read(ctx, func(opts ...options) error {
		known = false
		out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: s.bucket(), Key: s.object(probeKey)}, opts...)
		if err != nil {
			return err
		}
		defer out.Body.Close()
		text, err := io.ReadAll(io.LimitReader(out.Body, int64(len(probeText))+1))
		known = string(text) == probeText
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return known, err
}

// remember records a successful probe, unless another process has done so. It uses a conditional
// write, since a bucket policy may allow no other writes.
func (s *Store) remember(ctx context.Context) error {
	_, err := (&try{ctx: ctx, s: s}).put(probeKey, probeText, nil, nil)
	return explain(err)
}

// Probe implements [storage.Prober].
func (s *Store) Probe(ctx context.Context) ([]storage.Check, error) {
	select {
	case s.probe.turn <- struct{}{}:
		defer func() { <-s.probe.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	checks, err := s.tryOut(ctx)
	if err != nil {
		return checks, s.failed("probe", "", err)
	}
	s.probe.refusal = verdict(checks)
	s.probe.good.Store(s.probe.refusal == nil)
	if s.probe.refusal != nil {
		err = s.remove(ctx, probeKey) // other processes must not rely on an earlier record
	} else {
		err = s.remember(ctx)
	}
	if err != nil {
		return checks, s.failed("record the outcome of the probe of", "", err)
	}
	return checks, nil
}

// sweepProbes deletes the objects that killed probes have left behind.
func (s *Store) sweepProbes(ctx context.Context, until time.Time) (freed int64, err error) {
	in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.object(triesPrefix)}
	for {
		var out *s3.ListObjectsV2Output
		err := s.repeat(ctx, func(opts ...options) (err error) {
			out, err = s.client.ListObjectsV2(ctx, in, opts...)
			return err
		})
		if err != nil {
			return freed, err
		}
		for _, o := range out.Contents {
			if !left(o.LastModified, until) {
				continue
			}
			if err := s.remove(ctx, strings.TrimPrefix(aws.ToString(o.Key), *s.object(""))); err != nil {
				return freed, err
			}
			freed += aws.ToInt64(o.Size)
		}
		if !aws.ToBool(out.IsTruncated) {
			return freed, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}
