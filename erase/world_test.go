package erase_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

const (
	testFeed = "people"
	ann      = "ann@example.org" // the key that is erased
	secret   = "a secret of Ann"
)

// entity returns an entity of a key. Entities of the key ann have a secret in the body and in a
// header field.
func entity(n int, key string, op feed.Operation) *feed.Entity {
	e := &feed.Entity{
		ContentID: fmt.Sprintf("<%d@test>", n), Operation: op, ContentLocation: feed.EncodeKey(key),
		ContentType: "text/plain", Body: fmt.Appendf(nil, "body %d of %s", n, key),
		Header: []feed.Field{{Name: "X-Number", Value: fmt.Sprint(n)}},
	}
	if key == ann {
		e.Body = append(e.Body, secret...)
		e.Header[0].Value = secret
	}
	if op == feed.Delete {
		e.Body = nil
	}
	return e
}

// history returns n random changes of several keys.
func history(random *rand.Rand, n int) (all []*feed.Entity) {
	keys := []string{ann, "bob", "cem", "dee", "ann@example.com"}
	for i := range n {
		op := []feed.Operation{feed.Put, feed.Put, feed.Patch, feed.Delete}[random.IntN(4)]
		all = append(all, entity(i, keys[random.IntN(len(keys))], op))
	}
	return all
}

func publish(ctx context.Context, store storage.Store, entities ...*feed.Entity) error {
	f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3})
	if err != nil {
		return err
	}
	for _, e := range entities {
		if _, err = f.Publish(ctx, e); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eraseKeys erases c.Keys, or the key ann if there are none, from the test feed.
func eraseKeys(ctx context.Context, store storage.Store, c erase.Config) (erase.Report, error) {
	if c.Keys == nil {
		c.Keys = []string{ann}
	}
	plan, err := erase.Find(ctx, store, testFeed, c)
	if err != nil {
		return erase.Report{}, err
	}
	return plan.Run(ctx)
}

// A seen holds an entity that was read, and the position after it.
type seen struct {
	feed.Entity
	position feed.Position
}

// read returns the entities of the test feed, beginning at the given start.
func read(t *testing.T, store storage.Store, start consumer.Start) (all []seen) {
	t.Helper()
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	check(t, err)
	for e, err := range client.Entities(t.Context(), source.Feed(testFeed), start) {
		check(t, err)
		copied := e.Entity
		copied.Body, copied.Header = bytes.Clone(e.Body), slices.Clone(e.Header)
		if e.Stream != nil {
			copied.Body, err = io.ReadAll(e.Stream)
			check(t, err)
		}
		all = append(all, seen{copied, e.Position()})
	}
	return all
}

func ids(all []seen) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ContentID)
	}
	return ids
}

// apply returns a copy of a state to which further entities have been applied.
func apply(state map[string]string, all ...seen) map[string]string {
	state = maps.Clone(state)
	if state == nil {
		state = map[string]string{}
	}
	for _, e := range all {
		switch key := e.Key(); e.Operation {
		case feed.Put:
			state[key] = string(e.Body)
		case feed.Patch:
			state[key] += string(e.Body)
		case feed.Delete:
			delete(state, key)
		}
	}
	return state
}

// without returns a copy of a state without the key ann.
func without(state map[string]string) map[string]string {
	state = maps.Clone(state)
	delete(state, ann)
	return state
}

// traces returns the keys of those objects in a store that contain the given text.
func traces(t *testing.T, store storage.Store, text string) (keys []string) {
	t.Helper()
	for entry, err := range store.List(t.Context(), "", "") {
		check(t, err)
		object, err := store.Get(t.Context(), entry.Key, 0, -1)
		check(t, err)
		body, err := io.ReadAll(object.Body)
		check(t, errors.Join(err, object.Body.Close()))
		if strings.Contains(string(body)+string(object.Meta.Data), text) {
			keys = append(keys, entry.Key)
		}
	}
	return keys
}

// verified fails the test unless the feed passes "feedctl verify".
func verified(t *testing.T, store storage.Store) {
	t.Helper()
	report, err := verify.Store(t.Context(), store, testFeed, "")
	check(t, err)
	if len(report.Violations) > 0 {
		t.Fatalf("verify: %+v", report.Violations)
	}
}

func newest(t *testing.T, store storage.Store) *chain.Page {
	t.Helper()
	p, err := chain.NewReader(store, testFeed).Newest(t.Context())
	check(t, err)
	return p
}
