package locate

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/internal/directory"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// A Location is a feed or snapshot to read: on a server or, without a network, in a store.
type Location struct {
	URL    string // for requests
	Title  string // to show to users: the URL, or STORE#NAME
	Config consumer.Config
	Store  storage.Store // nil for a server
	Name   string        // in the store
	source *fromstore.Source
}

// Server returns the location of a URL on a server. It is nil if arg is not a URL.
func Server(arg string, c consumer.Config) (*Location, error) {
	if stores.IsURL(arg) || !IsURL(arg) {
		return nil, nil
	}
	if !IsWeb(arg) {
		return nil, exit.Usagef("%q must begin with http:// or https://, or be STORE#NAME, where STORE is %s%s", sink.Redact(arg), stores.Forms, DirectoryHint(arg, "#NAME"))
	}
	u, err := ParseURL(arg)
	if err != nil {
		return nil, err
	}
	return &Location{URL: u.String(), Title: u.String(), Config: c}, nil
}

// Open returns the location of a feed or snapshot in an open store. The caller must close the location,
// and then the store. The function urlpath, such as [layout.FeedPath], returns the path of the URL for a name.
func (s Stored) Open(store storage.Store, urlpath func(name string) string, c consumer.Config) *Location {
	l := &Location{Title: s.Identity(), Config: c, Store: store, Name: s.Name}
	l.source = fromstore.New(store, fromstore.Config{Name: l.Base(), Logger: c.Logger})
	l.URL, l.Config.Source = l.Base()+urlpath(s.Name), l.source
	return l
}

// Base returns the beginning of the URLs of all feeds and snapshots in the store.
func (l *Location) Base() string {
	store, _, _ := strings.Cut(l.Title, "#")
	return store
}

// Close stops reading from the location; the caller must close the store itself.
func (l *Location) Close() error {
	l.source.Close()
	return nil
}

// Snapshot returns the URL of the snapshot that spec names: NAME in the store of the feed, or the
// URL of an index on a server. If spec is empty, the snapshot has the name of the feed.
func (l *Location) Snapshot(spec string) (string, error) {
	switch {
	case l.Store == nil && spec == "":
		return snapshotOf(l.URL)
	case l.Store == nil:
		u, err := ParseURL(spec)
		if err != nil {
			return "", err
		}
		return u.String(), nil
	case spec == "":
		return l.source.Snapshot(l.Name), nil
	}
	store, name, whole := strings.Cut(spec, "#")
	where, _, _ := strings.Cut(Stored{store, name}.Identity(), "#")
	switch {
	case whole && (where != l.Base() || !stores.IsURL(store)), !whole && IsURL(spec):
		return "", exit.Usagef("snapshot %q is not in the feed's store %s: want snapshot:NAME; for one on a server, use the feed's URL there", sink.Redact(spec), l.Base())
	case !whole:
		name = spec
	}
	if err := layout.CheckName(name); err != nil {
		return "", exit.Usagef("snapshot:NAME of a feed in a store: %w", err)
	}
	return l.source.Snapshot(name), nil
}

// Start parses the value of --from. It also returns the URL of the snapshot, if there is one.
func (l *Location) Start(from string) (start consumer.Start, snapshotURL string, err error) {
	start, snapshot, err := parseFrom(from)
	if err != nil || snapshot == nil {
		return start, "", err
	}
	if snapshotURL, err = l.Snapshot(*snapshot); err != nil {
		return start, "", err
	}
	return consumer.FromSnapshot(snapshotURL), snapshotURL, nil
}

// CheckFrom returns an error if the value of --from is malformed.
func CheckFrom(from string) error {
	_, _, err := parseFrom(from)
	return err
}

// parseFrom parses the value of --from: a start, or the spec of a snapshot, as for [Location.Snapshot].
func parseFrom(from string) (start consumer.Start, snapshot *string, err error) {
	spec, isSnapshot := strings.CutPrefix(from, "snapshot")
	spec, isOther := strings.CutPrefix(spec, ":")
	switch {
	case from == "beginning":
		return consumer.Beginning(), nil, nil
	case from == "latest":
		return consumer.Latest(), nil, nil
	case isSnapshot && (spec == "" || isOther):
		return start, &spec, nil
	}
	t, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return start, nil, exit.Usagef("--from %q is not one of beginning, latest, snapshot, snapshot:URL, or a time like 2006-01-02T15:04:05Z", from)
	}
	return consumer.Since(t), nil, nil
}

// snapshotOf returns the URL of the snapshot with the name of a feed, on a feedctl server.
func snapshotOf(feedURL string) (string, error) {
	u, err := url.Parse(feedURL)
	if err == nil {
		if base, name, ok := strings.Cut(u.Path, "/feeds/"); ok && layout.CheckName(name) == nil {
			u.Path, u.RawQuery = base+layout.SnapshotPath(name), ""
			return u.String(), nil
		}
	}
	return "", exit.Usagef("the snapshot of %s is unknown: name it with snapshot:URL", feedURL)
}

// Suggest adds the name of a similar feed to the error about a feed that does not exist.
func (l *Location) Suggest(ctx context.Context, err error) error {
	_, question := l.DidYouMean(ctx)
	if question == "" {
		return err
	}
	return fmt.Errorf("%w%s", err, question)
}

// DidYouMean returns the name of the feed, and a question with the name of a similar feed that
// exists, or "".
func (l *Location) DidYouMean(ctx context.Context) (feed, question string) {
	feed = l.Name
	if l.Store == nil {
		feed = path.Base(l.Title)
	}
	return feed, suggest.DidYouMean(feed, l.feeds(ctx), "")
}

// directoryTimeout limits how long a server may take to list its feeds.
const directoryTimeout = 5 * time.Second

// feeds returns the names of feeds in the same store or on the same server; nil if they are
// unknown.
func (l *Location) feeds(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, directoryTimeout)
	defer cancel()
	if l.Store != nil {
		return Feeds(ctx, l.Store)
	}
	base, _, ok := strings.Cut(l.URL, "/feeds/")
	if !ok {
		return nil
	}
	list, err := directory.Read(ctx, l.Config, base+"/")
	if err != nil {
		return nil
	}
	for _, feed := range list.Feeds {
		if u, err := url.Parse(feed.URL); err == nil && path.Base(u.Path) == feed.Name {
			names = append(names, feed.Name)
		}
	}
	return names
}

// Feeds returns the names of the first 10,000 feeds in a store. It stops at the first error.
func Feeds(ctx context.Context, store storage.Store) (names []string) {
	for name, err := range chain.Feeds(ctx, store, "") {
		if err != nil || len(names) == 10_000 {
			break
		}
		names = append(names, name)
	}
	return names
}
