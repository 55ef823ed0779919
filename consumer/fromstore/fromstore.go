// Package fromstore reads the feeds and snapshots in a store, without a server: it has a
// [consumer.Source].
//
//	source := fromstore.New(store, fromstore.Config{})
//	defer source.Close()
//	client, err := consumer.New(consumer.Config{Source: source})
//	...
//	for e, err := range client.Entities(ctx, source.Feed("zones"), consumer.Beginning()) {
package fromstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a [Source].
type Config struct {
	// Name is what the store is called: URLs of what is in it begin with it, in errors and
	// positions. It may be empty, so that they are paths.
	Name string
	// Logger gets warnings. nil: nothing.
	Logger *slog.Logger
}

// Limits of reading.
const (
	// readAhead is what pages that are read ahead from a store behind a network may take,
	// in bytes: there is one reader.
	readAhead = 12 << 20
	// maxWaiters is how many requests may wait for news.
	maxWaiters = 1000
	// pollInterval is how often a feed that is waited for is looked at. That is rare, as
	// the store tells of changes.
	pollInterval = time.Second
)

// A Source is a store that a [consumer.Client] reads.
type Source struct {
	name    string
	reader  *feedstore.Reader
	watches bool // the store tells of changes
}

// New returns a Source, to be closed. The store stays the caller's.
func New(store storage.Store, c Config) *Source {
	properties := storage.PropertiesOf(store)
	config := feedstore.Config{MaxWaiters: maxWaiters, PollInterval: pollInterval, Logger: c.Logger}
	if properties.Remote {
		config.ReadAhead = readAhead
	}
	return &Source{name: c.Name, reader: feedstore.New(store, config), watches: properties.Watches}
}

// Close ends what is being read ahead. Bodies that are open may be read on.
func (s *Source) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no one waits for what is still being read
	s.reader.Close(ctx)
}

// Feed returns the URL of a feed.
func (s *Source) Feed(name string) string { return s.name + layout.FeedPath(name) }

// Snapshot returns the URL of the newest snapshot with a name.
func (s *Source) Snapshot(name string) string { return s.name + layout.SnapshotPath(name) }

// Get implements [consumer.Source]. URLs are those of package layout after the name of the
// store, or after what else the store was called when a position was taken.
func (s *Source) Get(ctx context.Context, q consumer.Request) (*consumer.Response, error) {
	at, ok := s.parse(q.URL)
	if !ok || (at.snapshot == "") != (q.Kind == consumer.FeedPage) {
		return nil, consumer.ErrOrigin
	}
	var r *consumer.Response
	var err error
	switch q.Kind {
	case consumer.SnapshotIndex:
		r, err = s.index(ctx, at)
	case consumer.SnapshotPage:
		r, err = s.snapshotPage(ctx, at)
	default:
		r, err = s.feedPage(ctx, q, at)
	}
	if err != nil {
		return nil, &sourceError{err}
	}
	r.Body = sourceBody{r.Body}
	return r, nil
}

// A sourceBody is a body whose errors are those of the source.
type sourceBody struct{ io.ReadCloser }

func (b sourceBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// A sourceError is an error of reading the store.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// Is makes what does not exist match [consumer.ErrNotFound].
func (e *sourceError) Is(target error) bool {
	return target == consumer.ErrNotFound && isAny(e.err, chain.ErrNoFeed, chain.ErrDeleted, chain.ErrNoPage, chain.ErrPruned,
		feedstore.ErrNoSnapshot, feedstore.ErrNoSnapshotPage)
}

// Permanent tells a client that there is no point in trying again. What may pass (a
// network, a server that has too much to do) does not say so.
func (e *sourceError) Permanent() bool {
	return isAny(e.err, storage.ErrNoStore, storage.ErrPermission, storage.ErrLayout, storage.ErrUnsafe, chain.ErrCorrupt)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// A place is what a URL leads to.
type place struct {
	feed     string
	snapshot string
	id       string // of the snapshot; "" for the newest
	page     int64  // number; of a feed 0 for the newest, of a snapshot -1 for the index
}

// parse reads a URL.
func (s *Source) parse(url string) (place, bool) {
	if path, ok := strings.CutPrefix(url, s.name); ok {
		if at, ok := parsePath(strings.Split(path, "/")[1:]); ok && strings.HasPrefix(path, "/") {
			return at, true
		}
	}
	segments := strings.Split(url, "/")
	for n := min(5, len(segments)); n >= 2; n-- {
		if at, ok := parsePath(segments[len(segments)-n:]); ok {
			return at, true
		}
	}
	return place{}, false
}

// parsePath reads the path of a URL, without the slash at its beginning, as package layout
// makes it.
func parsePath(segments []string) (at place, ok bool) {
	var page string
	switch n := len(segments); {
	case n >= 2 && n != 3 && segments[0] == "feeds":
		at.feed = segments[1]
		if n == 4 {
			page = segments[3]
		}
	case n >= 2 && n != 4 && segments[0] == "snapshots":
		at.snapshot, at.page = segments[1], -1
		if n >= 3 {
			at.id = segments[2]
		}
		if n == 5 {
			page = segments[4]
		}
	}
	if page != "" {
		number, err := strconv.ParseInt(page, 10, 64)
		if err != nil {
			return place{}, false
		}
		at.page = number
	}
	return at, strings.Join(segments, "/") == strings.TrimPrefix(at.path(), "/")
}

// path returns the path of what is at a place; "" if there is none.
func (at place) path() string {
	switch {
	case layout.CheckName(at.feed) == nil && at.page == 0:
		return layout.FeedPath(at.feed)
	case layout.CheckName(at.feed) == nil && at.page > 0:
		return layout.FeedPagePath(at.feed, at.page)
	case layout.CheckName(at.snapshot) != nil || at.id != "" && layout.CheckName(at.id) != nil:
		return ""
	case at.id == "":
		return layout.SnapshotPath(at.snapshot)
	case at.page < 0:
		return layout.SnapshotIndexPath(at.snapshot, at.id)
	case at.page <= feedstore.MaxSnapshotPage:
		return layout.SnapshotPagePath(at.snapshot, at.id, int(at.page))
	}
	return ""
}
