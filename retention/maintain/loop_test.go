package maintain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestLoop maintains the feeds that have a policy, every hour, and skips one whose policy is damaged.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, h := memory.New(), &history{}
		for name, data := range map[string]string{"another": `{"format":1,"feed":"another","keepAgeSeconds":0}`, "zzz": ""} {
			key := layout.FeedRetention(name)
			if data == "" {
				key = layout.FeedTurns(name)
			}
			if _, err := store.Create(t.Context(), key, storage.Meta{Data: []byte(data)}, storage.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		h.publish(t, store)
		setPolicy(t, store, retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Hour, KeepSnapshots: 1})
		ctx, cancel := context.WithCancel(t.Context())
		l, done := &maintain.Loop{Store: store, Config: quick(t)}, make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		synctest.Wait()
		if s := l.Stats(); s.Snapshots != 1 || s.Feeds != 2 || s.Failures != 1 || s.Failing != 1 || !s.Complete.Equal(time.Now()) {
			t.Errorf("after the first round: %+v", s)
		}
		time.Sleep(maintain.Interval - maintain.Interval/10)
		if s := l.Stats(); s.Failures > 2 {
			t.Errorf("after less than an interval: %+v", s)
		}
		for range 100 {
			h.publish(t, store)
			time.Sleep(maintain.Interval)
		}
		if s := l.Stats(); s.Snapshots < 45 || s.Pages < 50 || s.Bytes == 0 || s.Deleted < 25 || s.Failures < 100 || s.Failures > 113 || s.Failing != 1 {
			t.Errorf("after a hundred hours: %+v", s)
		}
		h.check(t, store)
		cancel()
		<-done
	})
}
