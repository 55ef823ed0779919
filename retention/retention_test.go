package retention_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

var policy = retention.Policy{KeepAge: 720 * time.Hour, SnapshotEvery: 24 * time.Hour, KeepSnapshots: 3, KeyPointer: "/id"}

func set(ctx context.Context, store storage.Store, p retention.Policy) error {
	_, err := retention.Change(ctx, store, "f", func(old *retention.Policy) error { *old = p; return nil })
	return err
}

func TestPolicy(t *testing.T) {
	store := memory.New()
	if err := retention.Remove(t.Context(), store, "f"); !errors.Is(err, retention.ErrNone) {
		t.Error(err)
	}
	if err := set(t.Context(), store, policy); err != nil {
		t.Fatal(err)
	}
	if got, err := retention.Read(t.Context(), store, "f"); err != nil || got != policy {
		t.Errorf("%+v, %v", got, err)
	}
	info, err := store.Stat(t.Context(), layout.FeedRetention("f"))
	const want = `{"format":1,"feed":"f","keepAgeSeconds":2592000,"snapshotEverySeconds":86400,"keepSnapshots":3,"key":"/id","crc32c":"`
	if err != nil || !strings.HasPrefix(string(info.Meta.Data), want) {
		t.Errorf("stored: %s, %v", info.Meta.Data, err)
	}
	if err := retention.Remove(t.Context(), store, "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := retention.Read(t.Context(), store, "f"); !errors.Is(err, retention.ErrNone) {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*retention.Policy){
		"keep-age 59m59s":             func(p *retention.Policy) { p.KeepAge = time.Hour - time.Second },
		"snapshot-every 59s":          func(p *retention.Policy) { p.SnapshotEvery = 59 * time.Second },
		"keep-snapshots 0":            func(p *retention.Policy) { p.KeepSnapshots = 0 },
		"keep-snapshots 10001":        func(p *retention.Policy) { p.KeepSnapshots = 10_001 },
		"times must be whole seconds": func(p *retention.Policy) { p.KeepAge += time.Millisecond },
	} {
		p := policy
		change(&p)
		if err := set(t.Context(), memory.New(), p); !errors.Is(err, retention.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (retention.Policy{KeepAge: time.Hour, SnapshotEvery: time.Minute, KeepSnapshots: 1}).Check(); err != nil {
		t.Error(err)
	}
}

// TestTogether: concurrent changes by several writers all take effect.
func TestTogether(t *testing.T) {
	store := memory.New()
	if err := set(t.Context(), store, policy); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 20 {
		writers.Go(func() {
			if _, err := retention.Change(t.Context(), store, "f", func(p *retention.Policy) error { p.KeepSnapshots++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if got, err := retention.Read(t.Context(), store, "f"); err != nil || got.KeepSnapshots != 23 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDamaged: an object that is not a policy of this feed causes an error, and can be removed.
func TestDamaged(t *testing.T) {
	for _, data := range []string{
		"", "{", `{"format":2,"feed":"f","keepAgeSeconds":3600,"snapshotEverySeconds":60,"keepSnapshots":1}`,
		`{"format":1,"feed":"g","keepAgeSeconds":3600,"snapshotEverySeconds":60,"keepSnapshots":1}`,
		`{"format":1,"feed":"f","keepAgeSeconds":3599,"snapshotEverySeconds":60,"keepSnapshots":1}`,
		`{"format":1,"feed":"f","keepAgeSeconds":3600,"snapshotEverySeconds":60,"keepSnapshots":1,"crc32c":"00000000"}`,
	} {
		store := memory.New()
		if _, err := store.Create(t.Context(), layout.FeedRetention("f"), storage.Meta{Data: []byte(data)}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := retention.Read(t.Context(), store, "f"); !errors.Is(err, chain.ErrCorrupt) {
			t.Errorf("%s: %v", data, err)
		}
		if err := set(t.Context(), store, policy); !errors.Is(err, chain.ErrCorrupt) {
			t.Errorf("%s: %v", data, err)
		}
		if err := errors.Join(retention.Remove(t.Context(), store, "f"), set(t.Context(), store, policy)); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// TestFaults makes each operation of a change and a removal fail.
func TestFaults(t *testing.T) {
	other := policy
	other.KeepSnapshots++
	faulttest.Run(t, []faulttest.Path{{
		Name:  "change",
		Setup: func(t *testing.T, store storage.Store) {},
		Do: func(ctx context.Context, store storage.Store) error {
			return errors.Join(set(ctx, store, policy), set(ctx, store, other))
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			got, err := retention.Read(t.Context(), store, "f")
			if done && got != other || err != nil && !errors.Is(err, retention.ErrNone) {
				t.Errorf("%+v, %v", got, err)
			}
		},
	}})
}
