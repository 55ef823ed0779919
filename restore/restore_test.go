package restore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A history is a feed with snapshots, and the state that it had at each second and after each
// entity.
type history struct {
	t      *testing.T
	store  storage.Store
	source *fromstore.Source
	client *consumer.Client
	now    time.Time
	state  map[string]string
	at     map[time.Time]map[string]string
	after  map[string]map[string]string // by Content-ID
	ids    []string
	pages  *producer.Feed
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{t: t, store: memory.New(), now: epoch, state: map[string]string{}, at: map[time.Time]map[string]string{}, after: map[string]map[string]string{}}
	h.connect()
	var err error
	h.pages, err = producer.Open(t.Context(), h.store, "things", producer.Config{MaxPageEntities: 7, Now: func() time.Time { return h.now }, MaxClockSkew: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.pages.Close() })
	return h
}

// connect reads the store with a new client.
func (h *history) connect() {
	h.t.Helper()
	h.source = fromstore.New(h.store, fromstore.Config{})
	h.t.Cleanup(h.source.Close)
	var err error
	if h.client, err = consumer.New(consumer.Config{Source: h.source}); err != nil {
		h.t.Fatal(err)
	}
}

// random publishes for a number of seconds, and makes a snapshot after some of them.
func (h *history) random(rng *rand.Rand, seconds int, snapshots ...int) {
	h.t.Helper()
	for second := range seconds {
		h.now = epoch.Add(time.Duration(second) * time.Second)
		for range 1 + rng.IntN(4) {
			key := fmt.Sprint("key ", rng.IntN(12))
			id := fmt.Sprintf("<%d@test>", len(h.ids))
			e := &feed.Entity{Operation: feed.Put, ContentID: id, ContentLocation: feed.EncodeKey(key), ContentType: "text/plain", Body: []byte("body of " + id)}
			h.state[key] = string(e.Body)
			if rng.IntN(4) == 0 {
				e.Operation, e.Body = feed.Delete, nil
				delete(h.state, key)
			}
			if _, err := h.pages.Publish(h.t.Context(), e); err != nil {
				h.t.Fatal(err)
			}
			h.ids = append(h.ids, id)
			h.after[id] = maps.Clone(h.state)
		}
		h.at[h.now] = maps.Clone(h.state)
		if slices.Contains(snapshots, second) {
			if _, err := fold.Feed(h.t.Context(), h.store, "things", fold.Config{TempDir: h.t.TempDir()}); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

func (h *history) config(at consumer.Until, to consumer.Sink) restore.Config {
	return restore.Config{Client: h.client, URL: h.source.Feed("things"), Feed: "store#things", Snapshots: h.source.Snapshot("things"), At: at, Sink: to}
}

func spec(file string) sink.Spec {
	return sink.Spec{Scheme: "sqlite", Path: file, Params: url.Values{"table": {"things"}}}
}

func (h *history) open(file string) consumer.Sink {
	h.t.Helper()
	to, err := sqlite.Open(h.t.Context(), file, "things")
	if err != nil {
		h.t.Fatal(err)
	}
	return to
}

func target(file string) restore.Target {
	return restore.Target{Open: func(ctx context.Context) (restore.Contents, error) { return sqlite.OpenContents(ctx, spec(file)) }}
}

// expect checks that a restored table has the state of the feed, according to the model and to
// restore.Check.
func (h *history) expect(file string, at consumer.Until, want map[string]string) {
	h.t.Helper()
	if diff := cmp.Diff(sums(want), h.rows(file)); diff != "" {
		h.t.Errorf("restored to %s (-want +got):\n%s", at, diff)
	}
	checked, err := restore.Check(h.t.Context(), h.config(at, nil), target(file))
	if err != nil || checked.Count() != 0 || checked.Keys != int64(len(want)) {
		h.t.Errorf("check of %s: %+v, %v", at, checked, err)
	}
}

// TestRestore: the state that is restored, for each second and after each entity, is the one that
// the feed had then.
func TestRestore(t *testing.T) {
	h := newHistory(t)
	h.random(rand.New(rand.NewPCG(1, 2)), 9, 3, 5, 6)
	restored := func(at consumer.Until, want map[string]string) *restore.Report {
		file := filepath.Join(t.TempDir(), "things.db")
		to := h.open(file)
		report, err := restore.Run(t.Context(), h.config(at, to))
		if err = errors.Join(err, to.Close()); err != nil {
			t.Fatal(err)
		}
		h.expect(file, at, want)
		return report
	}
	for at, want := range h.at {
		report := restored(consumer.UntilTime(at), want)
		second := int(at.Sub(epoch) / time.Second)
		from := -1
		for _, s := range []int{3, 5, 6} {
			if s <= second {
				from = s
			}
		}
		if from >= 0 && !report.SnapshotAt.Equal(epoch.Add(time.Duration(from)*time.Second)) || from < 0 && report.Snapshot != "" {
			t.Errorf("second %d was restored from snapshot %q of %v", second, report.Snapshot, report.SnapshotAt)
		}
	}
	for n := 0; n < len(h.ids); n += 3 {
		restored(consumer.UntilContentID(h.ids[n]), h.after[h.ids[n]])
	}
	restored(consumer.UntilTime(epoch.Add(time.Hour)), h.state)
}

// TestRefused: a restore is refused if the sink is not new or is being restored to another point,
// or if the state at the point is unknown.
func TestRefused(t *testing.T) {
	h := newHistory(t)
	h.random(rand.New(rand.NewPCG(3, 4)), 8, 4)
	at := consumer.UntilTime(epoch.Add(3 * time.Second))
	refused := func(to consumer.Sink, at consumer.Until, want error) error {
		t.Helper()
		before, err := to.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = restore.Run(t.Context(), h.config(at, to))
		if !errors.Is(err, want) {
			t.Errorf("restore to %s: %v, want %v", at, err, want)
		}
		if after, err := to.Position(t.Context()); err != nil || after != before {
			t.Errorf("the position became %+v, %v", after, err)
		}
		return err
	}

	used := h.open(filepath.Join(t.TempDir(), "used.db"))
	defer used.Close()
	if _, err := (&consumer.Job{Client: h.client, URL: h.source.Feed("things"), Feed: "store#things", Sink: used}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = refused(used, at, restore.ErrNotNew)

	file := filepath.Join(t.TempDir(), "restored.db")
	to := h.open(file)
	defer to.Close()
	if _, err := restore.Run(t.Context(), h.config(at, to)); err != nil {
		t.Fatal(err)
	}
	if err := refused(to, consumer.UntilTime(epoch.Add(4*time.Second)), restore.ErrNotNew); !strings.Contains(fmt.Sprint(err), "to 2026-01-01T00:00:03Z of store#things") {
		t.Errorf("the error does not say what the sink is restored to: %v", err)
	}
	other := h.config(at, to)
	other.Feed = "store#others"
	if _, err := restore.Run(t.Context(), other); !errors.Is(err, restore.ErrNotNew) {
		t.Errorf("restore of another feed: %v", err)
	}
	if report, err := restore.Run(t.Context(), h.config(at, to)); err != nil || !report.Resumed || report.Entities != 0 {
		t.Errorf("the same restore again: %+v, %v", report, err)
	}
	if _, err := (&consumer.Job{Client: h.client, URL: h.source.Feed("things"), Feed: "store#things", Sink: to}).Run(t.Context()); err != nil {
		t.Errorf("continued by a consumer: %v", err)
	}
	if diff := cmp.Diff(sums(h.state), h.rows(file)); diff != "" {
		t.Errorf("continued by a consumer (-want +got):\n%s", diff)
	}
	_ = refused(to, at, restore.ErrNotNew)

	none := h.open(filepath.Join(t.TempDir(), "none.db"))
	defer none.Close()
	if _, err := restore.Run(t.Context(), h.config(consumer.Until{}, none)); err == nil {
		t.Error("a restore without a point in time succeeded")
	}
	_ = refused(none, consumer.UntilTime(time.Now().Add(time.Hour)), consumer.ErrNotOver)
	if err := refused(none, consumer.UntilTime(epoch.Add(-time.Second)), restore.ErrTooEarly); !strings.Contains(fmt.Sprint(err), "begins at 2026-01-01T00:00:00Z") {
		t.Error(err)
	}
	if _, err := chain.RaiseFloor(t.Context(), h.store, "things", 2); err != nil {
		t.Fatal(err)
	}
	h.connect()
	err := refused(none, consumer.UntilTime(epoch.Add(3*time.Second)), restore.ErrTooEarly)
	if !strings.Contains(fmt.Sprint(err), "the oldest is from 2026-01-01T00:00:04Z") {
		t.Errorf("the error does not name the oldest snapshot: %v", err)
	}
	_, err = restore.Run(t.Context(), h.config(consumer.UntilContentID("<x@test>"), none))
	if _, ok := errors.AsType[*consumer.UntilNotFoundError](err); !ok {
		t.Errorf("unknown Content-ID: %v", err)
	}
	if _, err := restore.Run(t.Context(), h.config(consumer.UntilTime(epoch.Add(5*time.Second)), none)); err != nil {
		t.Errorf("from the snapshot of a pruned feed: %v", err)
	}
}
