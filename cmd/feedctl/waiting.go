package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/directory"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/storage"
)

// directoryTime is how long a server may take to list its feeds.
const directoryTime = 5 * time.Second

// tellMissing has a client that follows a feed tell people that it waits for one that does not
// exist, and which one they may have meant. On other than a terminal the log says so.
func (a *app) tellMissing(at *location) {
	if !a.terminal {
		return
	}
	at.config.Missing = func(ctx context.Context) {
		name := at.feed()
		a.console.Clear()
		fmt.Fprintf(a.err, "feedctl: waiting for feed %q, which does not exist yet%s\n", name, suggest.DidYouMean(name, at.feeds(ctx), ""))
	}
}

// feed returns the name of the feed that a location is of.
func (l *location) feed() string {
	if l.store != nil {
		return l.name
	}
	return path.Base(l.title)
}

// suggest adds to the error of a feed that does not exist the name of the one that may be meant.
func (l *location) suggest(ctx context.Context, err error) error {
	if err == nil || !errors.Is(err, chain.ErrNoFeed) && !errors.Is(err, consumer.ErrNotFound) && exit.HTTPStatus(err) != http.StatusNotFound {
		return err
	}
	if question := suggest.DidYouMean(l.feed(), l.feeds(ctx), ""); question != "" {
		return fmt.Errorf("%w%s", err, question)
	}
	return err
}

// maxListed is how many feeds of a store are taken into account.
const maxListed = 10_000

// storedFeeds returns names of feeds that are in the store.
func storedFeeds(ctx context.Context, store storage.Store) (names []string) {
	for name, err := range chain.Feeds(ctx, store, "") {
		if err != nil || len(names) == maxListed {
			break
		}
		names = append(names, name)
	}
	return names
}

// feeds returns names of feeds that are where a location is; nil if that cannot be known.
func (l *location) feeds(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, directoryTime)
	defer cancel()
	if l.store != nil {
		return storedFeeds(ctx, l.store)
	}
	base, _, ok := strings.Cut(l.url, "/feeds/")
	if !ok {
		return nil
	}
	list, err := directory.Read(ctx, l.config, base+"/")
	if err != nil {
		return nil
	}
	var names []string
	for _, feed := range list.Feeds {
		if u, err := url.Parse(feed.URL); err == nil && path.Base(u.Path) == feed.Name {
			names = append(names, feed.Name)
		}
	}
	return names
}
