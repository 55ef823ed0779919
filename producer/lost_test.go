package producer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// burst publishes entities, two on each page, and writes all pages but the first at once. Then it
// closes the producer or, if closes is false, aborts it.
func burst(t *testing.T, store storage.Store, closes bool, first, last int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 2})
	if err != nil {
		t.Fatal(err)
	}
	publishAll(t, f, entities(ids(first, first+1)))
	publishAll(t, f, entities(ids(first+2, last)))
	if closes {
		_ = f.Close()
	} else {
		f.Abort()
	}
}

// publishOne publishes one entity with a new producer.
func publishOne(t *testing.T, store storage.Store, id string) error {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	_, err = f.Publish(t.Context(), entities([]string{id})...)
	return err
}

// versions returns the versions of all objects.
func versions(t *testing.T, store storage.Store) map[string]storage.Version {
	t.Helper()
	all := map[string]storage.Version{}
	for entry, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		info, err := store.Stat(t.Context(), entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Key] = info.Version
	}
	return all
}

// TestLostPage deletes a page of a feed that was written in one burst, and whose last page is open or
// closed. Then it publishes to the feed.
func TestLostPage(t *testing.T) {
	for _, last := range []int{7, 8} {
		for lost := range int64(4) {
			lost++
			store := memory.New()
			burst(t, store, true, 1, last)
			if err := store.Delete(t.Context(), layout.FeedPage(testFeed, lost)); err != nil {
				t.Fatal(err)
			}
			before := versions(t, store)
			err := publishOne(t, store, "<new@test>")
			if lost == 4 { // there is no page after the lost page
				if err != nil {
					t.Errorf("newest page lost: %v", err)
				}
				continue
			}
			if !errors.Is(err, producer.ErrLostPages) || !errors.Is(err, chain.ErrCorrupt) || errors.Is(err, producer.ErrUnknown) {
				t.Fatalf("page %d lost: %v", lost, err)
			}
			for _, want := range []string{fmt.Sprintf("page %d is missing", lost), "page 4 exist", testFeed, "feedctl repair"} {
				if lost < 3 {
					want = strings.Replace(want, "page 4 exist", fmt.Sprintf("pages %d to 4 exist", lost+1), 1)
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
			if after := versions(t, store); !maps.Equal(before, after) {
				t.Errorf("page %d lost: the store was changed: %v, %v", lost, before, after)
			}
		}
	}
}

// TestOldOrphans: the pages beyond a missing page record nothing about it, as if a killed producer had
// left them behind. They are replaced as long as they are so recent that this producer could still be
// running, but not later.
func TestOldOrphans(t *testing.T) {
	for name, write := range map[string]func(*testing.T, storage.Store){
		"killed after a burst": func(t *testing.T, store storage.Store) { burst(t, store, false, 1, 10) },
		"an earlier version": func(t *testing.T, store storage.Store) {
			burst(t, store, true, 1, 10)
			forget(t, store)
		},
	} {
		for lost := int64(2); lost <= 4; lost++ {
			for _, age := range []time.Duration{59 * time.Minute, time.Hour} {
				t.Run(fmt.Sprintf("%s, page %d lost, %v", name, lost, age), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := memory.New()
						write(t, store)
						if err := store.Delete(t.Context(), layout.FeedPage(testFeed, lost)); err != nil {
							t.Fatal(err)
						}
						time.Sleep(age)
						before := versions(t, store)
						err := publishOne(t, store, "<new@test>")
						if age < time.Hour {
							if err != nil {
								t.Fatal(err)
							}
							return
						}
						if !errors.Is(err, producer.ErrLostPages) {
							t.Errorf("page %d lost %v ago: %v", lost, age, err)
						}
						if after := versions(t, store); !maps.Equal(before, after) {
							t.Errorf("the store was changed: %v, %v", before, after)
						}
					})
				})
			}
		}
	}
}

// TestReachedOrphans: after the open page there is an orphan, left behind by a producer that lost the
// race to fill the open page. The feed grows slowly and reaches the number of the orphan hours later.
func TestReachedOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		f := open(t, store, producer.Config{MaxPageEntities: 4})
		publishAll(t, f, entities(ids(1, 1)))
		orphan := &chain.Page{
			Feed: testFeed, Number: 2, Boundary: "b", Entities: 1, First: time.Now(), Last: time.Now(),
			Prev: strings.Repeat("0", 64), Closed: true,
		}
		meta, err := orphan.Meta()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(context.Background(), layout.FeedPage(testFeed, 2), meta, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		for n := range 9 {
			time.Sleep(time.Hour)
			publishAll(t, f, entities(ids(n+2, n+2)))
		}
		if got := visibleIDs(t, store); len(got) != 10 {
			t.Errorf("the feed has %v", got)
		}
	})
}
