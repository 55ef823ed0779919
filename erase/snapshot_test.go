package erase_test

import (
	"errors"
	"io"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestSnapshot: a key whose entities have been pruned is still in a snapshot and a state digest. Consumers are
// told to delete the key, the digest is deleted, and a new snapshot does not contain the key.
func TestSnapshot(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	check(t, publish(ctx, store, entity(1, ann, feed.Put), entity(2, ann, feed.Put), entity(3, ann, feed.Put), entity(4, "bob", feed.Put)))
	old, err := fold.Feed(ctx, store, testFeed, fold.Config{Digested: func(*digests.Result) {}})
	check(t, err)
	_, err = chain.RaiseFloor(ctx, store, testFeed, 2)
	check(t, err)
	find := func(c erase.Config) (*erase.Plan, error) {
		c.Keys = []string{ann, "zoe"}
		plan, err := erase.Find(ctx, store, testFeed, c)
		check(t, err)
		has, err := plan.InSnapshot(ctx, testFeed, old.ID)
		if err == nil && !has {
			t.Error("the snapshot does not have the key")
		}
		return plan, err
	}
	if _, err := find(erase.Config{ForgetKeys: true}); !errors.Is(err, erase.ErrTold) {
		t.Errorf("forget the key: %v", err)
	}
	plan, err := find(erase.Config{})
	check(t, err)
	report, err := plan.Run(ctx)
	if err != nil || report.Deletes != 1 || len(report.Unknown) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, prefix := range []string{layout.DigestRoots(testFeed), layout.DigestNodes(testFeed)} {
		for entry, err := range store.List(ctx, prefix, "") {
			check(t, err)
			t.Errorf("%s is left", entry.Key)
		}
	}
	made, err := fold.Feed(ctx, store, testFeed, fold.Config{})
	check(t, err)
	if has, err := plan.InSnapshot(ctx, testFeed, made.ID); err != nil || has {
		t.Errorf("the new snapshot has the key (error %v)", err)
	}
}

// TestDigest: a state digest that contains the key is deleted even if all that the feed has for the key is a
// DELETE. A damaged digest, which may contain the key, is deleted as well. A digest of other keys stays.
func TestDigest(t *testing.T) {
	for name, test := range map[string]struct {
		versions bool
		key      string
		damage   string // the prefix of the keys of the objects that are lost
		want     int64  // how many digests are deleted
	}{
		"of the key":          {false, ann, "", 1},
		"of other keys":       {false, ann + "e", "", 0},
		"of versions":         {true, ann, "", 1},
		"of versions, others": {true, ann + "e", "", 0},
		"damaged":             {false, ann + "e", layout.DigestNodes(testFeed), 1},
		"killed":              {false, ann, layout.DigestRoots(testFeed), 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, store := t.Context(), memory.New()
			check(t, publish(ctx, store, entity(1, test.key, feed.Put), entity(2, "bob", feed.Put), entity(3, "bob", feed.Put)))
			config := fold.Config{Digested: func(*digests.Result) {}}
			if test.versions {
				config.Version = func(e *feed.Entity, _ io.Reader) (string, []string, error) { return e.ContentID, nil, nil }
			}
			_, err := fold.Feed(ctx, store, testFeed, config)
			check(t, err)
			check(t, publish(ctx, store, &feed.Entity{ContentID: "<4@test>", Operation: feed.Delete, ContentLocation: feed.EncodeKey(ann)}))
			_, err = chain.RaiseFloor(ctx, store, testFeed, 2)
			check(t, err)
			for entry, err := range store.List(ctx, test.damage, "") {
				check(t, err)
				if test.damage != "" {
					check(t, store.Delete(ctx, entry.Key))
				}
			}
			report, err := eraseKeys(ctx, store, erase.Config{})
			if err != nil || report.Entities != 0 || report.Former != test.want+1 { // 1: the page that was pruned
				t.Errorf("%+v, %v", report, err)
			}
			left := int64(0)
			for _, prefix := range []string{layout.DigestRoots(testFeed), layout.DigestNodes(testFeed)} {
				for _, err := range store.List(ctx, prefix, "") {
					check(t, err)
					left++
				}
			}
			if left > 0 == (test.want > 0) {
				t.Errorf("%d digest objects are left", left)
			}
		})
	}
}
