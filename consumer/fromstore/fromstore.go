// Package fromstore provides a [consumer.Source] that reads the feeds and snapshots in a
// store, without a server.
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

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a [Source].
type Config struct {
	// Name is the prefix of the URLs of the store, which appear in errors and positions. If it is
	// empty, URLs are paths.
	Name string
	// Logger logs warnings. nil means no logging.
	Logger *slog.Logger
}

// A Source is a store that a [consumer.Client] reads.
type Source struct {
	name    string
	store   storage.Store
	reader  *feedstore.Reader
	watches bool // the store reports changes
}

// New returns a Source, which must be closed. [Source.Close] does not close the store.
func New(store storage.Store, c Config) *Source {
	return &Source{name: c.Name, store: store, reader: feedstore.NewLocal(store, c.Logger), watches: storage.PropertiesOf(store).Watches}
}

// Close stops reading ahead. Bodies that are open can still be read.
func (s *Source) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // do not wait for requests in progress
	s.reader.Close(ctx)
}

// Feed returns the URL of a feed.
func (s *Source) Feed(name string) string { return s.name + layout.FeedPath(name) }

// Snapshot returns the URL of the newest snapshot with the given name.
func (s *Source) Snapshot(name string) string { return s.name + layout.SnapshotPath(name) }

// Get implements [consumer.Source]. URLs are paths of package layout after the name of the
// store, or after the name that it had when a position was recorded.
func (s *Source) Get(ctx context.Context, q consumer.Request) (*consumer.Response, error) {
	at, ok := s.parse(q.URL)
	if !ok || (at.snapshot == "") != (q.Kind == consumer.FeedPage) || at.timegate == q.At.IsZero() {
		return nil, consumer.ErrOrigin
	}
	var r *consumer.Response
	var err error
	switch q.Kind {
	case consumer.SnapshotIndex:
		r, err = s.index(ctx, at, q.Latest)
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

// A sourceBody is a body whose Read returns errors as sourceErrors.
type sourceBody struct{ io.ReadCloser }

func (b sourceBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// A sourceError is an error that occurred while reading the store.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// Is makes errors about missing feeds, pages and snapshots match [consumer.ErrNotFound].
func (e *sourceError) Is(target error) bool {
	return target == consumer.ErrNotFound && isAny(e.err, chain.ErrNoFeed, chain.ErrDeleted, chain.ErrNoPage, chain.ErrPruned,
		feedstore.ErrNoSnapshot, feedstore.ErrNoSnapshotPage)
}

// Permanent reports whether a client must not repeat the request. It is false for errors
// that may be temporary, such as those of a network or an overloaded server.
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

// A location is the page or index that a URL leads to.
type location struct {
	feed     string
	snapshot string
	id       string // of the snapshot; "" for the newest
	page     int64  // page number; 0 for the newest page of a feed, -1 for the index of a snapshot
	timegate bool   // of the feed
}

// parse parses a URL.
func (s *Source) parse(url string) (location, bool) {
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
	return location{}, false
}

// parsePath parses the segments of a path of package layout, without the leading slash.
func parsePath(segments []string) (at location, ok bool) {
	var page string
	switch n := len(segments); {
	case n >= 2 && segments[0] == "feeds":
		at.feed, at.timegate = segments[1], n == 3
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
			return location{}, false
		}
		at.page = number
	}
	return at, strings.Join(segments, "/") == strings.TrimPrefix(at.path(), "/")
}

// path returns the path of a location, or "" if it is invalid.
func (at location) path() string {
	switch {
	case layout.CheckName(at.feed) == nil && at.timegate:
		return layout.FeedTimegatePath(at.feed)
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
