// Package damagetest damages stores behind the backs of their drivers: no reader may report success with
// wrong or missing data, and damage that verify does not report must do no harm.
package damagetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

var all = flag.Bool("all", false, "damage every bit, and run every reader each time")

// sample returns one of every step bits, different ones in each run. With -short, as for the race detector, it
// returns a tenth as many.
func sample(bits, step int) (chosen []int) {
	if testing.Short() {
		step *= 10
	}
	for bit := rand.IntN(min(step, max(bits, 1))); bit < bits; bit += step {
		chosen = append(chosen, bit)
	}
	return chosen
}

const origin = "http://store.example"

// fill fills the store to be damaged. It creates the feed f with pages 1 to 4, of which the first is pruned
// and the last is open, and the snapshot s with two pages.
func fill(t testing.TB, store storage.Store) {
	t.Helper()
	now := time.Date(2023, 11, 27, 3, 10, 0, 0, time.UTC)
	f, err := producer.Open(t.Context(), store, "f", producer.Config{
		MaxPageEntities: 2, SpoolDir: t.TempDir(), Now: func() time.Time { now = now.Add(time.Second); return now },
	})
	check(t, err)
	for i := range 7 {
		e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentID: fmt.Sprintf("<%d>", i), ContentLocation: fmt.Sprint(i % 4), Body: fmt.Append(nil, "text ", i)}
		_, err := f.Publish(t.Context(), e)
		check(t, err)
	}
	check(t, f.Close())
	_, err = fold.Feed(t.Context(), store, "f", fold.Config{TempDir: t.TempDir()}) // the start of fold
	check(t, err)
	_, err = chain.RaiseFloor(t.Context(), store, "f", 2)
	check(t, err)
	check(t, store.Delete(t.Context(), layout.FeedPage("f", 1)))
	_, err = snapshots.Write(t.Context(), store, "s", entities(), snapshots.Config{MaxPageBytes: 1, SpoolDir: t.TempDir(), CreatedAt: now})
	check(t, err)
}

func entities() iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for i := range 2 {
			e := &feed.Entity{ContentType: "text/plain", ContentLocation: fmt.Sprint(i), Body: fmt.Append(nil, "state ", i)}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A reader reads data from a store in one of several ways.
type reader struct {
	name  string
	about string // prefix of the keys that it reads
	rare  bool   // the reader is slow, and not used each time
	read  func(ctx context.Context, store storage.Store) (string, error)
}

var readers = []reader{
	{"consume a store", "feeds/", false, func(ctx context.Context, store storage.Store) (string, error) {
		return consume(ctx, consumer.Config{}, store, feedEntities)
	}},
	{"consume a store with pages too large for memory", "feeds/", true, func(ctx context.Context, store storage.Store) (string, error) {
		return consume(ctx, consumer.Config{ReadAhead: 64, MaxHeld: 1}, store, feedEntities)
	}},
	{"consume from a server", "feeds/", true, func(ctx context.Context, store storage.Store) (string, error) {
		return consumeServed(ctx, store, feedEntities)
	}},
	{"read a snapshot", "snapshots/s/", false, func(ctx context.Context, store storage.Store) (string, error) {
		return consume(ctx, consumer.Config{}, store, snapshotEntities("s"))
	}},
	{"read a snapshot from a server", "snapshots/s/", true, func(ctx context.Context, store storage.Store) (string, error) {
		return consumeServed(ctx, store, snapshotEntities("s"))
	}},
	{"fold", "", true, func(ctx context.Context, store storage.Store) (string, error) {
		over := overlay{store, memory.New()}
		if _, err := fold.Feed(ctx, over, "f", fold.Config{Retry: consumer.RetryConfig{Attempts: 1}}); err != nil {
			return "", err
		}
		return consume(ctx, consumer.Config{}, over.over, snapshotEntities("f"))
	}},
}

// An entitiesOf is a function that returns the entities of a feed or snapshot in a store.
type entitiesOf func(ctx context.Context, c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error]

func feedEntities(ctx context.Context, c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
	return c.Entities(ctx, name+"/feeds/f", consumer.Beginning())
}

func snapshotEntities(snapshot string) entitiesOf {
	return func(ctx context.Context, c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
		return c.Snapshot(ctx, name+"/snapshots/"+snapshot, feed.SnapshotPosition{})
	}
}

// consume returns all entities that a consumer of the store receives.
func consume(ctx context.Context, c consumer.Config, store storage.Store, read entitiesOf) (string, error) {
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	c.Source = source
	return consumeBy(ctx, c, "", read)
}

// consumeServed returns all entities that a consumer receives from a server of the store.
func consumeServed(ctx context.Context, store storage.Store, read entitiesOf) (_ string, err error) {
	s, err := server.New(store, server.Config{ReadAhead: -1, PublicURL: origin})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return consumeBy(ctx, consumer.Config{HTTPClient: &http.Client{Transport: inprocess.Transport(s)}}, origin, read)
}

func consumeBy(ctx context.Context, c consumer.Config, name string, read entitiesOf) (string, error) {
	c.Retry.Attempts, c.ReadAhead = 1, cmp.Or(c.ReadAhead, 4<<10)
	client, err := consumer.New(c)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for e, err := range read(ctx, client, name) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s %s %s %s %s\n", e.ContentLocation, e.ContentID, e.Operation, e.ContentType, e.Body)
	}
	return out.String(), nil
}

// verified reports whether verify finds nothing wrong with the feed or snapshot to which a key belongs.
func verified(ctx context.Context, store storage.Store, key string) bool {
	if strings.HasPrefix(key, "snapshots/") {
		name := strings.Split(key, "/")[1]
		s, err := server.New(store, server.Config{ReadAhead: -1, PublicURL: origin})
		if err != nil {
			return false
		}
		defer s.Close(ctx)
		report, err := verify.Snapshot(ctx, origin+"/snapshots/"+name, verify.Config{HTTPClient: &http.Client{Transport: inprocess.Transport(s)}})
		return err == nil && len(report.Violations) == 0
	}
	report, err := verify.Store(ctx, store, "f", "")
	return err == nil && len(report.Violations) == 0
}

// truth returns the result of each reader, by name, for an intact store.
func truth(t testing.TB, store storage.Store) map[string]string {
	t.Helper()
	for _, key := range []string{"feeds/", "snapshots/s/", "snapshots/f/"} {
		if !verified(t.Context(), store, key) {
			t.Fatalf("%s is not intact", key)
		}
	}
	data := make(map[string]string)
	for _, r := range readers {
		got, err := r.read(t.Context(), store)
		check(t, err)
		data[r.name] = got
	}
	return data
}

// inspect lets the readers read a store in which the object with the given key, or one whose key begins with
// it, was damaged.
func inspect(t testing.TB, store storage.Store, what, key string, data map[string]string, thorough bool) {
	t.Helper()
	ctx := t.Context()
	ok := verified(ctx, store, key)
	for _, r := range readers {
		if !strings.HasPrefix(key, r.about) || r.rare && !thorough && !*all {
			continue
		}
		got, err := r.read(ctx, store)
		switch {
		case err == nil && got != data[r.name]:
			t.Errorf("%s: %s: wrong data without an error:\n%s", what, r.name, got)
		case err != nil && ok:
			t.Errorf("%s: %s: verify finds nothing, but reading fails: %v", what, r.name, err)
		}
	}
}

// An overlay is a store that creates objects in another store instead.
type overlay struct {
	storage.Store
	over storage.Store
}

func (o overlay) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return o.over.Create(ctx, key, meta, body)
}

func flipped(data []byte, bit int) []byte {
	data = bytes.Clone(data)
	data[bit/8] ^= 1 << (bit % 8)
	return data
}
