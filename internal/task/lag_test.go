package task

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// TestLag follows the lag of a consumer that reads, commits, catches up, and cannot reach its feed.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Consume
		e := &Env{Reached: func(string, error) {}}
		idle, begun := c.idle(e), time.Now()
		want := func(when string, lag time.Duration) {
			t.Helper()
			if got := c.Lag(); got != lag {
				t.Errorf("%s the lag is %v, want %v", when, got, lag)
			}
		}
		want("at the start", -1)
		c.oldest.Store(&begun)
		time.Sleep(time.Minute)
		want("a minute after an entity was read", time.Minute)
		c.oldest.Store(nil)
		c.set(consumer.Progress{Position: feed.Position{LastModified: begun}, Newest: begun.Add(30 * time.Second), Committed: time.Now()})
		want("while one that is 30 s old has not been read", 30*time.Second)
		time.Sleep(time.Minute)
		want("a minute later", 90*time.Second)
		idle()
		want("after it has caught up", 0)
		if got := c.CaughtUp(); !got.Equal(time.Now()) {
			t.Errorf("the consumer caught up at %v", got)
		}
		c.set(consumer.Progress{Position: feed.Position{Tail: new(feed.TailPosition)}, Newest: begun})
		want("newest first", -1)
	})
	if new(Consume).idle(new(Env)) != nil {
		t.Error("a consumer asks at once whether there is more, although nobody needs to know")
	}
}
