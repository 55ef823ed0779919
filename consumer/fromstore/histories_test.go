package fromstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/internal/selfcheck"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// A swapped is a store that can be exchanged for another at any moment, as in a restore.
type swapped struct{ at atomic.Value }

type held struct{ storage.Store }

func (s *swapped) store() storage.Store { return s.at.Load().(held).Store }

func (s *swapped) Stat(ctx context.Context, key string) (storage.Info, error) {
	return s.store().Stat(ctx, key)
}

func (s *swapped) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	return s.store().Get(ctx, key, offset, length)
}

func (s *swapped) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return s.store().List(ctx, prefix, after)
}

func (s *swapped) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return s.store().Create(ctx, key, meta, body)
}

func (s *swapped) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return s.store().Append(ctx, key, at, meta, body)
}

func (s *swapped) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return s.store().Replace(ctx, key, at, meta, body)
}

func (s *swapped) Delete(ctx context.Context, key string) error { return s.store().Delete(ctx, key) }
func (s *swapped) Close() error                                 { return s.store().Close() }

// A history changes a feed. Each entity is written as a letter, which is its Content-ID.
type history struct {
	t      *testing.T
	make   func() storage.Store
	store  *swapped
	backup storage.Store
}

func newHistory(t *testing.T, make func() storage.Store) *history {
	h := &history{t: t, make: make, store: &swapped{}}
	h.store.at.Store(held{make()})
	return h
}

// publish publishes entities at different times, two per page.
func (h *history) publish(ids string) {
	h.t.Helper()
	f, err := producer.Open(h.t.Context(), h.store, "f", producer.Config{MaxPageEntities: 2})
	check(h.t, err)
	for id := range strings.FieldsSeq(ids) {
		time.Sleep(2 * time.Second)
		_, err := f.Publish(h.t.Context(), &feed.Entity{ContentID: id, Operation: feed.Put, ContentType: "text/plain", Body: []byte(id)})
		check(h.t, err)
	}
	check(h.t, f.Close())
}

// copied returns a copy of a store, such as a backup.
func (h *history) copied(from storage.Store) storage.Store {
	to := h.make()
	for entry, err := range from.List(h.t.Context(), "", "") {
		check(h.t, err)
		object, err := from.Get(h.t.Context(), entry.Key, 0, -1)
		check(h.t, err)
		body, err := io.ReadAll(object.Body)
		check(h.t, errors.Join(err, object.Body.Close()))
		_, err = to.Create(h.t.Context(), entry.Key, object.Meta, storage.Bytes(body))
		check(h.t, err)
	}
	return to
}

func (h *history) restore() { h.store.at.Store(held{h.copied(h.backup)}) }

// restoreAndBegin restores the feed the way an operator does while no server runs: the new epoch
// begins before anyone can read the restored feed.
func (h *history) restoreAndBegin() {
	restored := h.copied(h.backup)
	_, err := chain.BeginEpoch(h.t.Context(), restored, "f")
	check(h.t, err)
	h.store.at.Store(held{restored})
}

func (h *history) begin() {
	_, err := chain.BeginEpoch(h.t.Context(), h.store, "f")
	check(h.t, err)
}

func (h *history) prune(floor int64) {
	_, err := chain.RaiseFloor(h.t.Context(), h.store, "f", floor)
	check(h.t, err)
}

// forget removes the identity of the feed, which feeds of older versions do not have.
func (h *history) forget() {
	info, err := h.store.Stat(h.t.Context(), layout.FeedFloor("f"))
	check(h.t, err)
	meta := storage.Meta{Data: selfcheck.Add([]byte(`{"format":1,"feed":"f","floor":1}`))}
	_, err = h.store.Replace(h.t.Context(), info.Key, info.Version, meta, storage.Bytes())
	check(h.t, err)
}

// A reader opens a client of a feed.
type reader func(t *testing.T, store storage.Store, c consumer.Config) (client *consumer.Client, url string)

func readers() map[string]reader {
	return map[string]reader{
		"http": func(t *testing.T, store storage.Store, c consumer.Config) (*consumer.Client, string) {
			s, err := server.New(store, server.Config{})
			check(t, err)
			t.Cleanup(func() { check(t, s.Close(context.Background())) })
			c.HTTPClient = memnet.New(t, s).Client()
			client, err := consumer.New(c)
			check(t, err)
			return client, "http://feed.test/feeds/f"
		},
		"store": func(t *testing.T, store storage.Store, c consumer.Config) (*consumer.Client, string) {
			client, _ := newClient(t, store, c)
			return client, name + "/feeds/f"
		},
	}
}

// outcome describes what a consumer has received: the entities, and the kind of its error.
func outcome(ids []string, err error) string {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case errors.Is(err, consumer.ErrOtherFeed):
		ids = append(ids, "!other")
	case errors.Is(err, consumer.ErrEpoch):
		ids = append(ids, "!epoch")
	case consumer.IsGap(err):
		ids = append(ids, "!gap")
	case errors.Is(err, consumer.ErrPageChanged):
		ids = append(ids, "!changed")
	case errors.Is(err, consumer.ErrNotFound) || strings.Contains(err.Error(), "404"):
		ids = append(ids, "!gone")
	default:
		ids = append(ids, "!"+err.Error())
	}
	return strings.Join(ids, " ")
}

// resume reads on from a position, and returns the outcome.
func resume(t *testing.T, c *consumer.Client, url string, at feed.Position) string {
	var ids []string
	for e, err := range c.Entities(t.Context(), url, consumer.After(at)) {
		if err != nil {
			return outcome(ids, err)
		}
		ids = append(ids, e.ContentID)
	}
	return outcome(ids, nil)
}

// A follower is a consumer that waits for more entities.
type follower struct {
	stop context.CancelFunc
	done chan struct{}
	ids  []string
	err  error
}

func follow(t *testing.T, c *consumer.Client, url string) *follower {
	ctx, stop := context.WithCancel(t.Context())
	f := &follower{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for e, err := range c.Entities(ctx, url, consumer.Beginning()) {
			if f.err = err; err == nil {
				f.ids = append(f.ids, e.ContentID)
			}
		}
	}()
	return f
}

// TestHistories changes the history of a feed of ten entities, a to j, of which a backup has five.
// Consumers that have read up to c, e or h, and one that follows the feed, receive the entities that
// they have not read yet, or an error that says why this is not possible, both from servers that kept
// running and from servers started afterwards. A follower may receive the error before the epoch
// begins, or before the feed exists again.
func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name                      string
		before                    func(*history) // the backup, nil: nothing
		change                    func(*history)
		behind, at, ahead, follow string
		bare                      bool // positions recorded by an older version, without an identity
	}{
		{"nothing", nil, func(*history) {}, "d e f g h i j", "f g h i j", "i j", "", false},
		{"an epoch without a restore", nil, func(h *history) { h.begin(); h.publish("k l") }, "d e f g h i j k l", "f g h i j k l", "i j k l", "k l", false},
		{"restored", nil, func(h *history) { h.restore() }, "d e", "", "!gap", "!gap|!changed", false},
		{"restored, published to", nil, func(h *history) { h.restore(); h.publish("x y z") }, "d e x y z", "x y z", "!gap", "!gap|!changed", false},
		{"restored, the same published again", nil, func(h *history) { h.restore(); h.publish("f g h i j k l m") }, "d e f g h i j k l m", "f g h i j k l m", "!gap", "!gap|!changed", false},
		{"restored, epoch", nil, func(h *history) { h.restoreAndBegin() }, "d e", "", "!epoch", "!epoch", false},
		{"restored, epoch, published to", nil, func(h *history) { h.restoreAndBegin(); h.publish("x y z") }, "d e x y z", "x y z", "!epoch", "!epoch", false},
		{"restored, epoch, the same published again", nil, func(h *history) { h.restoreAndBegin(); h.publish("f g h i j k l m") }, "d e f g h i j k l m", "f g h i j k l m", "!epoch", "!epoch", false},
		{"restored, published to, epoch", nil, func(h *history) { h.restore(); h.publish("f g h i j k"); h.begin() }, "d e f g h i j k", "f g h i j k", "!epoch", "!gap|!changed", false},
		{"restored, epoch twice", nil, func(h *history) { h.restoreAndBegin(); h.publish("x y"); h.begin(); h.publish("z") }, "d e x y z", "x y z", "!epoch", "!epoch", false},
		{"restored, no page in common", nil, func(h *history) { h.restoreAndBegin(); h.publish("x y z u v"); h.prune(6) }, "!gap", "!gap", "!epoch", "!epoch", false},
		{"restored to a state before the feed was made", func(h *history) { h.backup = h.make() }, func(h *history) { h.restore(); h.publish("a b c d e f g h i j") }, "!other", "!other", "!other", "!other|!gone", false},
		{"restored to the state before the first page", func(h *history) {
			h.backup = h.make()
			_, err := chain.Identify(h.t.Context(), h.backup, "f")
			check(h.t, err)
		}, func(h *history) { h.restoreAndBegin(); h.publish("a b c") }, "!other", "!other", "!other", "!other|!gone", false},
		{"deleted and made again", nil, func(h *history) {
			_, err := chain.Delete(h.t.Context(), h.store, "f")
			check(h.t, err)
			h.publish("a b c d e f g h i j")
		}, "!other", "!other", "!other", "!other|!gone", false},
		{"another feed", nil, func(h *history) {
			other := &history{t: h.t, make: h.make, store: &swapped{}}
			other.store.at.Store(held{h.make()})
			other.publish("a b c d e f g h i j k")
			h.store.at.Store(other.store.at.Load())
		}, "!other", "!other", "!other", "!other|!gone", false},
		{"a copy", nil, func(h *history) {
			to := h.make()
			check(h.t, replica.New(h.store, to, replica.Config{}).Run(h.t.Context()))
			h.store.at.Store(held{to})
			h.publish("k l")
		}, "d e f g h i j k l", "f g h i j k l", "i j k l", "k l", false},
		{"old positions", nil, func(h *history) { h.publish("k") }, "d e f g h i j k", "f g h i j k", "i j k", "k", true},
		{"old positions, restored, epoch, published to", nil, func(h *history) { h.restoreAndBegin(); h.publish("x y z") }, "d e x y z", "x y z", "!epoch", "!epoch", true},
		{"old positions, the same published again", nil, func(h *history) { h.restoreAndBegin(); h.publish("f g h i j k l m") }, "d e f g h i j k l m", "f g h i j k l m", "!epoch", "!epoch", true},
		{"an old feed", (*history).forget, func(h *history) { h.publish("k l") }, "d e f g h i j k l", "f g h i j k l", "i j k l", "k l", false},
		{"an old feed gets an identity", (*history).forget, func(h *history) { h.begin(); h.publish("k l") }, "d e f g h i j k l", "f g h i j k l", "i j k l", "k l", false},
		{"an old feed, restored", (*history).forget, func(h *history) { h.restore(); h.publish("x y z") }, "d e x y z", "x y z", "!gap", "!gap|!changed", false},
		{"an old feed, restored, epoch", (*history).forget, func(h *history) { h.restoreAndBegin(); h.publish("x y z") }, "d e x y z", "x y z", "!epoch", "!epoch", false},
	} {
		stores := map[string]func(t *testing.T) storage.Store{
			"memory": func(*testing.T) storage.Store { return memory.New() },
			"file": func(t *testing.T) storage.Store {
				s, err := file.New(t.TempDir())
				check(t, err)
				return s
			},
		}
		for kind, make := range stores {
			for how, open := range readers() {
				t.Run(fmt.Sprint(c.name, "/", kind, "/", how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := newHistory(t, func() storage.Store { return make(t) })
						h.publish("a b c d e")
						if c.before != nil {
							c.before(h)
						}
						if h.backup == nil {
							h.backup = h.copied(h.store)
						}
						h.publish("f g h i j")
						running, url := open(t, h.store, consumer.Config{Retry: consumer.RetryConfig{Attempts: 2}})
						at := map[string]feed.Position{}
						for e, err := range running.Entities(t.Context(), url, consumer.Beginning()) {
							check(t, err)
							p := e.Position()
							if c.bare {
								p.Identity, p.Epoch = "", ""
							}
							at[e.ContentID] = p
						}
						following, url := open(t, h.store, consumer.Config{Follow: true, Retry: consumer.RetryConfig{Attempts: 2}})
						f := follow(t, following, url)
						time.Sleep(time.Minute)
						c.change(h)
						time.Sleep(time.Minute)
						restarted, url := open(t, h.store, consumer.Config{Retry: consumer.RetryConfig{Attempts: 2}})
						next := c.ahead // expected after f, whose page would be the same again
						if !strings.HasPrefix(next, "!") {
							next = "g h " + next
						}
						for id, want := range map[string]string{"c": c.behind, "e": c.at, "f": next, "h": c.ahead} {
							for of, client := range map[string]*consumer.Client{"running": running, "restarted": restarted} {
								if got := resume(t, client, url, at[id]); got != want {
									t.Errorf("%s: after %s: got %q, want %q", of, id, got, want)
								}
							}
						}
						time.Sleep(10 * time.Minute)
						f.stop()
						<-f.done
						if got := strings.TrimPrefix(outcome(f.ids, f.err), "a b c d e f g h i j"); !slices.Contains(strings.Split(c.follow, "|"), strings.TrimSpace(got)) {
							t.Errorf("following: got %q, want %q (%v)", got, c.follow, f.err)
						}
					})
				})
			}
		}
	}
}
