package fromstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A listSink lists the Content-IDs of the entities that it receives.
type listSink struct {
	ids []string
	at  feed.Position
}

type listBatch struct {
	s   *listSink
	ids []string
}

func (s *listSink) Position(context.Context) (feed.Position, error) { return s.at, nil }
func (s *listSink) Begin(context.Context) (consumer.Batch, error)   { return &listBatch{s: s}, nil }
func (s *listSink) Close() error                                    { return nil }
func (b *listBatch) Apply(_ context.Context, e *feed.Entity) error {
	b.ids = append(b.ids, e.ContentID)
	return nil
}
func (b *listBatch) Rollback(context.Context) error { return nil }
func (b *listBatch) Commit(_ context.Context, at feed.Position) error {
	b.s.ids, b.s.at = append(b.s.ids, b.ids...), at
	return nil
}

// run runs a job and returns the Content-IDs that the sink received from it, and the kind of its error.
func (s *listSink) run(t *testing.T, open reader, store storage.Store, policy consumer.GapPolicy) string {
	t.Helper()
	c, url := open(t, store, consumer.Config{Retry: consumer.RetryConfig{Attempts: 2}})
	before := len(s.ids)
	_, err := (&consumer.Job{Client: c, URL: url, Sink: s, OnGap: policy}).Run(t.Context())
	return outcome(s.ids[before:], err)
}

// TestAdopt: by default, a job stops at a change of history, writes nothing, and keeps its position.
// With a policy, it continues in the new history; later runs continue from there as usual.
func TestAdopt(t *testing.T) {
	for how, open := range readers() {
		for _, c := range []struct {
			name       string
			change     func(*history)
			fail, pass string
		}{
			{"another epoch", func(h *history) { h.restoreAndBegin(); h.publish("x y z") }, "!epoch", "e x y z"},
			{"another epoch, the same published again", func(h *history) { h.restoreAndBegin(); h.publish("f g h i") }, "!epoch", "e f g h i"},
			{"another feed", func(h *history) {
				_, err := chain.Delete(h.t.Context(), h.store, "f")
				check(h.t, err)
				h.publish("a b c")
			}, "!other", "a b c"},
			{"an epoch that is common", func(h *history) { h.begin(); h.publish("k") }, "k", ""},
		} {
			t.Run(how+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHistory(t, func() storage.Store { return memory.New() })
					h.publish("a b c d e")
					h.backup = h.copied(h.store)
					h.publish("f g h i j")
					sink := &listSink{}
					if got := sink.run(t, open, h.store, consumer.GapFail); got != "a b c d e f g h i j" {
						t.Fatalf("got %q", got)
					}
					at := sink.at
					c.change(h)
					if got := sink.run(t, open, h.store, consumer.GapFail); got != c.fail {
						t.Errorf("fail: got %q, want %q", got, c.fail)
					}
					if strings.HasPrefix(c.fail, "!") && sink.at != at {
						t.Errorf("fail: the position became %+v", sink.at)
					}
					if got := sink.run(t, open, h.store, consumer.GapReplay); got != c.pass {
						t.Errorf("replay: got %q, want %q", got, c.pass)
					}
					h.publish("p q")
					if got := sink.run(t, open, h.store, consumer.GapFail); got != "p q" {
						t.Errorf("afterwards: got %q", got)
					}
					now, err := chain.ReadIdentity(t.Context(), h.store, "f")
					if err != nil || sink.at.Identity != now.ID || sink.at.Epoch != now.Epoch.ID {
						t.Errorf("position %+v, identity %+v, %v", sink.at, now, err)
					}
				})
			})
		}
	}
}

// TestMoved: the identity tells whether another URL leads to the same feed, which is continued without
// gaps or repetitions, or to a different feed, even if its entities are the same.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, func() storage.Store { return memory.New() })
		h.publish("a b c d e")
		sink := &listSink{}
		if got := sink.run(t, readers()["store"], h.store, consumer.GapFail); got != "a b c d e" {
			t.Fatalf("got %q", got)
		}
		other := newHistory(t, h.make)
		other.publish("a b c d e f")
		if got := sink.run(t, readers()["http"], other.store, consumer.GapFail); got != "!other" {
			t.Errorf("another feed: got %q", got)
		}
		h.publish("f g h")
		copied := memory.New()
		check(t, replica.New(h.store, copied, replica.Config{}).Run(t.Context()))
		if got := sink.run(t, readers()["http"], copied, consumer.GapFail); got != "f g h" {
			t.Errorf("moved: got %q", got)
		}
	})
}

// TestEpochErrors: the errors say what happened, where, and what to do.
func TestEpochErrors(t *testing.T) {
	at := feed.Position{ContentID: "<7@test>"}
	for _, c := range []struct {
		err   error
		texts []string
	}{
		{&consumer.EpochError{URL: "http://feed.test/feeds/f", Epoch: feed.Epoch{Number: 3}, Position: at, Err: errors.New("why")},
			[]string{"http://feed.test/feeds/f", "restored", "epoch 3", "<7@test>", "empty sink", "replay", "why"}},
		{&consumer.EpochError{URL: "http://feed.test/feeds/f", Position: at}, []string{"restored", "<7@test>", "empty sink"}},
		{&consumer.IdentityError{Page: "http://feed.test/feeds/f/pages/7", Got: "aa", Want: "bb"},
			[]string{"http://feed.test/feeds/f/pages/7", "another feed", "aa", "bb", "URL", "empty sink"}},
	} {
		for _, text := range c.texts {
			if !strings.Contains(c.err.Error(), text) {
				t.Errorf("%q is not in %q", text, c.err)
			}
		}
		if !consumer.IsGap(c.err) || consumer.Retryable(c.err) {
			t.Errorf("%v: want a gap that is not retryable", c.err)
		}
	}
}
