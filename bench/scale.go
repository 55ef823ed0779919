package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
)

// scaleWorkers is how many feeds are created at a time.
const scaleWorkers = 16

// A scaleStore is a kind of store whose cost is measured at several sizes.
type scaleStore struct {
	name string
	// open opens a new store, and returns it and its name on the command line.
	open func(name string) (store storage.Store, at string, err error)
	// The sizes: pages in a feed, and feeds in a store. The other sizes are compared with the
	// first.
	pages, feeds []int
}

// scale measures what one publish, one read of the newest page through a server and one
// resumption of a consumer cost, in feeds of few and many pages, and in stores of few and many
// feeds. None of these costs should depend on the size.
func (b *bench) scale() error {
	return errors.Join(b.scaleFile(), b.scalePostgres(), b.scaleS3())
}

func (b *bench) scaleFile() error {
	return b.scaleIn(scaleStore{
		name: "file", pages: []int{10, 1000, 100_000}, feeds: []int{1, 1000, 10_000},
		open: func(name string) (storage.Store, string, error) {
			dir := filepath.Join(b.dir, name)
			store, err := file.New(dir)
			if err != nil {
				return nil, "", err
			}
			return store, "file:" + dir, nil
		},
	})
}

func (b *bench) scalePostgres() (err error) {
	server, _, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return b.scaleIn(scaleStore{
		name: "PostgreSQL", pages: []int{10, 1000, 100_000}, feeds: []int{1, 1000, 10_000},
		open: func(name string) (storage.Store, string, error) {
			database, err := server.Database(name)
			if err != nil {
				return nil, "", err
			}
			u, err := url.Parse(database)
			if err != nil {
				return nil, "", err
			}
			store, err := postgres.Connect(b.ctx, u, slog.Default())
			if err != nil {
				return nil, "", err
			}
			return store, database, nil
		},
	})
}

// scaleS3 has fewer pages and feeds: the server on this machine needs a millisecond of CPU time for
// each of them.
func (b *bench) scaleS3() (err error) {
	endpoint, stop, err := b.startS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return b.scaleIn(scaleStore{
		name: "S3", pages: []int{10, 1000, 10_000}, feeds: []int{1, 1000},
		open: func(name string) (storage.Store, string, error) {
			store, err := s3.Connect(b.ctx, s3.Config{Bucket: s3Bucket, Prefix: name, Region: "us-east-1", Endpoint: endpoint, PathStyle: true})
			if err != nil {
				return nil, "", err
			}
			at := fmt.Sprintf("s3://%s/%s?region=us-east-1&path_style=true&endpoint=%s", s3Bucket, name, url.QueryEscape(endpoint))
			return store, at, nil
		},
	})
}

// scaleIn measures both dimensions in new stores.
func (b *bench) scaleIn(s scaleStore) error {
	if err := b.scalePages(s); err != nil {
		return fmt.Errorf("%s, pages: %w", s.name, err)
	}
	if err := b.scaleFeeds(s); err != nil {
		return fmt.Errorf("%s, feeds: %w", s.name, err)
	}
	return nil
}

// scalePages measures feeds in one store.
func (b *bench) scalePages(s scaleStore) (err error) {
	store, at, err := s.open("pages")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	server, err := b.serveAt(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.interrupt()) }()
	var costs []*scaleCost
	for _, pages := range b.parts(s.pages) {
		name := fmt.Sprintf("pages-%d", pages)
		if err := fillPages(b.ctx, store, name, pages); err != nil {
			return err
		}
		costs = append(costs, &scaleCost{size: pages, store: store, server: server, feed: name})
	}
	return b.compareCosts(s.name, "pages", costs)
}

// scaleFeeds measures a feed in each of several stores.
func (b *bench) scaleFeeds(s scaleStore) (err error) {
	var costs []*scaleCost
	for _, feeds := range b.parts(s.feeds) {
		store, at, err := s.open(fmt.Sprintf("feeds-%d", feeds))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		_, err = parallel(b.ctx, scaleWorkers, feeds, func(ctx context.Context, n int) error {
			return fillPages(ctx, store, fmt.Sprintf("feed-%d", n), 1)
		})
		if err != nil {
			return err
		}
		server, err := b.serveAt(at)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.interrupt()) }()
		costs = append(costs, &scaleCost{size: feeds, store: store, server: server, feed: fmt.Sprintf("feed-%d", feeds/2)})
	}
	return b.compareCosts(s.name, "feeds", costs)
}

// parts divides all sizes except the first.
func (b *bench) parts(sizes []int) []int {
	divided := sizes[:1:1]
	for _, size := range sizes[1:] {
		divided = append(divided, max(size/b.part, sizes[0]))
	}
	return divided
}

// fillPages publishes small entities, each of which gets a page.
func fillPages(ctx context.Context, store storage.Store, name string, pages int) (err error) {
	f, err := producer.Open(ctx, store, name, producer.Config{MaxPageEntities: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const batch = 5000
	for first := 0; first < pages; first += batch {
		entities := make([]*feed.Entity, min(batch, pages-first))
		for i := range entities {
			entities[i] = &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: fmt.Sprint(first + i), Body: []byte("1")}
		}
		if _, err := f.Publish(ctx, entities...); err != nil {
			return err
		}
	}
	return nil
}
