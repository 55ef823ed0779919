package watch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/kinto"
)

// Kinto watches servers with collections of records.
//
// A server with the changeset of monitor/changes, such as Remote Settings, gets one request every 10 s
// for all collections that it lists. Any other collection costs a conditional HEAD request: every 5 s
// after a change and eventually only every 5 min, but a server gets at most 20 requests a second. A
// bucket, whose name ends in "/", costs a request for the list of its collections, and a HEAD request
// for each collection that the changeset does not list.
//
// The stamp of a collection does not show every change. A long transaction stores records with stamps in
// the past, so jobs are woken again 1 min after a change. Clients may also choose stamps in the past, so
// jobs are woken every 6 h as well; their bridges then compare all records if that is due.
type Kinto struct {
	// Transport makes the requests. If it is nil, each server gets a new transport.
	Transport http.RoundTripper
}

const (
	kintoFastest = 5 * time.Second
	kintoSlowest = 5 * time.Minute
	kintoMost    = 20 // collections per second
	kintoAtOnce  = 4
	// kintoListEvery is the time between requests for the list of collections, and kintoListed is how
	// long a list is valid. kintoAgain is the time after which a server that has no list is asked for it
	// again.
	kintoListEvery = 10 * time.Second
	kintoListed    = 30 * time.Second
	kintoAgain     = 10 * time.Minute
)

// Watch implements [Source].
func (k Kinto) Watch(ctx context.Context, w *Watched) error {
	s, err := k.open(w)
	if err != nil {
		return err
	}
	if k.Transport == nil {
		defer s.server.CloseIdleConnections()
	}
	pause := s.list(ctx) // before the first comparison
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			if err := backoff.Sleep(ctx, pause); err != nil {
				return err
			}
			pause = s.list(ctx)
		}
	})
	group.Go(func() error {
		p := poller{watched: w, fastest: kintoFastest, slowest: kintoSlowest, round: time.Second, most: kintoMost, hints: s.hints}
		p.compare = func(ctx context.Context, states map[string]string) (map[string]string, error) {
			return compareEach(ctx, states, kintoAtOnce, s.state)
		}
		return p.run(ctx, 0)
	})
	return group.Wait()
}

func (k Kinto) open(w *Watched) (*kintoServer, error) {
	config := kinto.Config{URL: w.Server, Attempts: 3, Log: w.Logger}
	if k.Transport != nil {
		config.HTTP = &http.Client{Transport: k.Transport}
	}
	if w.Credential != "" {
		source, err := credential.ParseReference(w.Credential)
		if err == nil {
			config.Auth, err = source.ReadKinto()
		}
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.Server, err)
		}
	}
	server, err := kinto.OpenServer(config)
	return &kintoServer{server: server, watched: w, hints: newHints(), noticed: map[string]time.Time{}}, err
}

// A kintoServer is a server that is watched.
type kintoServer struct {
	server  *kinto.Server
	watched *Watched
	hints   *hints

	mu      sync.Mutex
	listed  map[string]int64     // stamps of the collections that the server lists
	at      time.Time            // when they were requested
	noticed map[string]time.Time // when each collection last changed, until its jobs are woken again
}

// list requests the stamps of all collections, and returns how long to wait before the next such
// request. If the server has no list, collections are requested one by one.
func (s *kintoServer) list(ctx context.Context) time.Duration {
	set, err := s.server.Changes(ctx, 0, 0) // caches may hold responses for other arguments for a long time
	listed := make(map[string]int64, len(set.Changes))
	for _, c := range set.Changes {
		listed[url.PathEscape(c.Bucket)+"/"+url.PathEscape(c.Collection)] = c.Stamp
	}
	s.mu.Lock()
	before := s.listed
	s.listed, s.at = listed, time.Now()
	s.mu.Unlock()
	if err != nil {
		s.watched.Logger.Debug("server does not list changes, comparing collections", "error", err)
		if kinto.Retryable(err) {
			return kintoListEvery
		}
		return kintoAgain
	}
	for name, stamp := range listed {
		if before[name] != stamp {
			s.hint(name)
		}
	}
	for name := range before {
		if _, ok := listed[name]; !ok {
			s.hint(name)
		}
	}
	return kintoListEvery
}

// hint makes the comparison of a collection and of its bucket due.
func (s *kintoServer) hint(name string) {
	bucket, _, _ := strings.Cut(name, "/")
	s.hints.add(name)
	s.hints.add(bucket + "/")
}

// fromList returns the stamp of a collection in the list; ok reports whether the list contains the
// collection and is still valid.
func (s *kintoServer) fromList(name string) (stamp int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp, ok = s.listed[name]
	return stamp, ok && time.Since(s.at) < kintoListed
}

// stamp returns the stamp of a collection or, for a bucket, a number that changes when any of its
// collections does. The argument known is the previous result.
func (s *kintoServer) stamp(ctx context.Context, name string, known int64) (int64, error) {
	if stamp, ok := s.fromList(name); ok {
		return stamp, nil
	}
	bucket, collection, _ := strings.Cut(name, "/")
	bucket, err := url.PathUnescape(bucket)
	if err == nil {
		collection, err = url.PathUnescape(collection)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("name of collection %q: %w", name, err)
	case collection == "":
		return s.bucketStamp(ctx, bucket)
	}
	page, err := s.server.Collection(bucket, collection).Head(ctx, kinto.Query{IfNoneMatch: known})
	if page.NotModified {
		return known, err
	}
	return page.Stamp, err
}

// bucketStamp returns a digest of the stamps of all collections of a bucket.
func (s *kintoServer) bucketStamp(ctx context.Context, bucket string) (int64, error) {
	names, err := s.server.Collections(ctx, bucket)
	if err != nil {
		return 0, err
	}
	digest := fnv.New64a()
	for _, collection := range names {
		name := url.PathEscape(bucket) + "/" + url.PathEscape(collection)
		stamp, listed := s.fromList(name)
		if !listed {
			if err := backoff.Sleep(ctx, time.Second/kintoMost); err != nil {
				return 0, err
			}
			if stamp, err = s.stamp(ctx, name, 0); err != nil && !errors.Is(err, kinto.ErrNotFound) {
				return 0, err
			}
		}
		_, _ = fmt.Fprintln(digest, name, stamp) // it never fails
	}
	return int64(digest.Sum64()>>1) | 1, nil // 0 means that there is no stamp
}

// state returns the current state of a collection, given its previous state. The result is empty if the
// server does not send a stamp.
func (s *kintoServer) state(ctx context.Context, name, before string) (string, error) {
	was := parseKintoState(before)
	stamp, err := s.stamp(ctx, name, was.stamp)
	switch {
	case errors.Is(err, kinto.ErrNotFound):
		return kintoMissing, nil
	case err != nil || stamp == 0:
		return "", err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.noticed[name]
	switch {
	case stamp != was.stamp:
		s.noticed[name] = now
		return kintoState{stamp: stamp, period: periodOf(name, now), again: true}.String(), nil
	case was.again && !known: // the change was noticed by an earlier watch
		s.noticed[name] = now
		return before, nil
	case was.again && now.Sub(since) < kintoLate:
		return before, nil
	}
	delete(s.noticed, name)
	return kintoState{stamp: stamp, period: periodOf(name, now)}.String(), nil
}
