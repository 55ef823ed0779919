package actions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/actions"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/stores"
	"github.com/feedctl/feedctl/verify"
)

// unclosed is a store that stays open when a run closes it, since several runs use the store one after
// another.
type unclosed struct{ storage.Store }

func (unclosed) Close() error { return nil }

func (u unclosed) Unwrap() storage.Store { return u.Store }

// publish publishes the given number of pages, with one entity each.
func publish(t *testing.T, store storage.Store, name string, pages int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n := range pages {
		e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: fmt.Sprint("k", n%3), Body: fmt.Append(nil, n)}
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// keys returns the keys of the objects in a store.
func keys(t *testing.T, store storage.Store) []string {
	t.Helper()
	found := map[string]bool{}
	for entry, err := range store.List(context.WithoutCancel(t.Context()), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Key] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// feedsOf returns the actions for the feeds of a store.
func feedsOf(store storage.Store) *actions.Feeds {
	shared := &task.Shared{OpenStore: func(context.Context, string, stores.Options) (storage.Store, error) { return unclosed{store}, nil }}
	return &actions.Feeds{Runner: actions.Runner{
		Log: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport, Store: "file:/data", StoreName: "file:/data", Shared: shared,
	}}
}

// run runs an action and returns the result. err is the error of the function that has returned the
// action.
func run(t *testing.T, a console.Action, err error) console.Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.Run(t.Context(), func(string) {})
	if err != nil {
		t.Fatalf("%s: %v", a.Name, err)
	}
	return result
}

// TestPrune: pruning deletes exactly what the dry run has shown. It does not delete pages that have become
// old enough since, and deletes nothing at all if pages were deleted meanwhile.
func TestPrune(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, store storage.Store)
		want      string // what the summary of the result, or the error, contains
		oldest    int64
	}{
		"nothing else":     {func(*testing.T, storage.Store) {}, "deleted 10 pages", 11},
		"more is old":      {func(*testing.T, storage.Store) { time.Sleep(48 * time.Hour) }, "deleted 10 pages", 11},
		"more was written": {func(t *testing.T, store storage.Store) { publish(t, store, "zones", 5) }, "deleted 10 pages", 11},
		"another prune": {func(t *testing.T, store storage.Store) {
			if _, err := producer.Prune(t.Context(), store, "zones", producer.PrunePolicy{KeepPages: 14}); err != nil {
				t.Fatal(err)
			}
		}, "has changed since the dry run", 7},
		"deleted": {func(t *testing.T, store storage.Store) {
			for _, key := range keys(t, store) {
				if err := store.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}, "feed has no pages", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				publish(t, store, "zones", 10)
				time.Sleep(24 * time.Hour)
				publish(t, store, "zones", 10)
				before := keys(t, store)
				a, err := feedsOf(store).Prune("zones", console.PruneRules{KeepAge: 2 * time.Hour, KeepPages: 3})
				if want := "feedctl prune --keep-age 2h --keep-pages 3 --dry-run zones --store file:/data"; a.Command != want {
					t.Errorf("the command is %s, want %s", a.Command, want)
				}
				shown := run(t, a, err)
				if !strings.HasPrefix(shown.Summary, "would delete 10 pages") || shown.Confirm == nil || !slices.Equal(keys(t, store), before) {
					t.Fatalf("the dry run: %+v", shown)
				}
				test.meanwhile(t, store)
				result, err := shown.Confirm.Run(t.Context(), func(string) {})
				text := result.Summary
				if err != nil {
					text = err.Error()
				}
				if !strings.Contains(text, test.want) {
					t.Errorf("%s, want %s", text, test.want)
				}
				if test.oldest == 0 {
					return
				}
				for n := range int64(20) {
					if has := slices.Contains(keys(t, store), layout.FeedPage("zones", n+1)); has != (n+1 >= test.oldest) {
						t.Errorf("page %d exists: %t", n+1, has)
					}
				}
			})
		})
	}
}

// TestPruneRules: rules that delete nothing ask for no confirmation, and invalid rules are refused.
func TestPruneRules(t *testing.T) {
	t.Parallel()
	store := memory.New()
	publish(t, store, "zones", 3)
	feeds := feedsOf(store)
	a, err := feeds.Prune("zones", console.PruneRules{KeepPages: 2})
	if shown := run(t, a, err); shown.Confirm != nil || !strings.Contains(shown.Summary, "written in the last hour") {
		t.Errorf("the dry run: %+v", shown)
	}
	for _, rules := range []console.PruneRules{{}, {KeepAge: -1}, {KeepPages: -1}} {
		if _, err := feeds.Prune("zones", rules); err == nil {
			t.Errorf("%+v are accepted", rules)
		}
	}
	a, err = feeds.Prune("zones", console.PruneRules{BeforeSnapshot: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context(), func(string) {}); err == nil {
		t.Error("a snapshot that does not exist is accepted")
	}
}

// TestKilled ends pruning at each of its operations, as closing the console does. The store is then sound,
// and in the same state as after the command was ended at that operation. Repeating the action completes
// the pruning.
func TestKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kill := func(at int, prune func(ctx context.Context, store storage.Store)) (left []string, ops int) {
			store := memory.New()
			publish(t, store, "zones", 6)
			time.Sleep(24 * time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			faulty := fault.Wrap(store, func(op fault.Op) fault.Outcome {
				if op.Verb.Writes() {
					if ops++; ops == at {
						cancel()
						return fault.Lost // a killed process does nothing more
					}
				}
				return fault.Pass
			})
			prune(ctx, faulty)
			left = keys(t, store)
			report, err := verify.Store(t.Context(), store, "zones", "")
			if err = errors.Join(err, report.Err()); err != nil {
				t.Errorf("killed at operation %d: %v", at, err)
			}
			a, err := feedsOf(store).Prune("zones", console.PruneRules{KeepPages: 2})
			if shown := run(t, a, err); shown.Confirm != nil {
				run(t, *shown.Confirm, nil)
			}
			if pages := strings.Count(strings.Join(keys(t, store), "\n"), layout.FeedPages("zones")); pages != 2 {
				t.Errorf("killed at operation %d, and repeated: %d pages are left", at, pages)
			}
			return left, ops
		}
		for at := 1; ; at++ {
			byAction, ops := kill(at, func(ctx context.Context, store storage.Store) {
				a, err := feedsOf(store).Prune("zones", console.PruneRules{KeepPages: 2})
				shown := run(t, a, err)
				_, _ = shown.Confirm.Run(ctx, func(string) {})
			})
			byCommand, _ := kill(at, func(ctx context.Context, store storage.Store) {
				e := &task.Env{Log: slog.New(slog.DiscardHandler), Store: "file:/data", Shared: feedsOf(store).Shared}
				command := task.Prune{Feed: "zones", Policy: producer.PrunePolicy{KeepPages: 2}}
				_, err := command.Run(ctx, e)
				_ = e.Close(err)
			})
			if !slices.Equal(byAction, byCommand) {
				t.Errorf("killed at operation %d: the action leaves\n%v, the command\n%v", at, byAction, byCommand)
			}
			if ops < at {
				if at < 5 {
					t.Errorf("pruning has only %d operations", ops)
				}
				return
			}
		}
	})
}

// TestFeeds makes a snapshot, and verifies a feed before and after it is damaged.
func TestFeeds(t *testing.T) {
	t.Parallel()
	store := memory.New()
	publish(t, store, "zones", 5)
	feeds := feedsOf(store)
	a, err := feeds.Snapshot("zones", "")
	if result := run(t, a, err); !strings.HasPrefix(result.Summary, "snapshot zones/") || !strings.HasSuffix(result.Summary, "has 3 entities") {
		t.Errorf("the snapshot: %+v", result)
	}
	if _, err := feeds.Snapshot("zones", "no pointer"); err == nil {
		t.Error("a key that is not a JSON Pointer is accepted")
	}
	a, err = feeds.Verify("zones")
	if result := run(t, a, err); !strings.HasPrefix(result.Summary, "5 pages, 5 entities, ") || !strings.HasSuffix(result.Summary, ": no violations") || len(result.Findings) > 0 {
		t.Errorf("the feed: %+v", result)
	}
	if err := store.Delete(t.Context(), layout.FeedPage("zones", 3)); err != nil {
		t.Fatal(err)
	}
	if a, err = feeds.Verify("zones"); err != nil {
		t.Fatal(err)
	}
	if result, err := a.Run(t.Context(), func(string) {}); err == nil && len(result.Findings) == 0 {
		t.Errorf("the damaged feed: %+v, %v", result, err)
	}
	a, err = feeds.Verify("none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context(), func(string) {}); err == nil {
		t.Error("a feed that does not exist is verified")
	}
}

// TestInConsole prunes a feed with the forms of a console.
func TestInConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, "zones", 6)
		time.Sleep(24 * time.Hour)
		reader := feedstore.NewLocal(store, nil)
		defer reader.Close(t.Context())
		c, err := console.New(console.Config{
			Store: store, Feeds: reader, StoreName: "file:/data", Actions: feedsOf(store),
			WriteAuth: console.Credentials([]server.Credential{{Username: "ann", Password: "p"}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path string, form url.Values) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth("ann", "p")
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			synctest.Wait()
			return w
		}
		see := ask(http.MethodPost, "/prune", url.Values{"feed": {"zones"}, "keep-pages": {"2"}}).Header().Get("Location")
		page, err := io.ReadAll(ask(http.MethodGet, "/"+see, nil).Result().Body)
		if err != nil || !strings.Contains(string(page), "would delete 4 pages") || !strings.Contains(string(page), "feedctl prune --keep-pages 2 zones --store file:/data") {
			t.Fatalf("%s: %v\n%s", see, err, page)
		}
		_, id, _ := strings.Cut(see, "=")
		see = ask(http.MethodPost, "/confirm", url.Values{"run": {id}}).Header().Get("Location")
		page, err = io.ReadAll(ask(http.MethodGet, "/"+see, nil).Result().Body)
		if err != nil || !strings.Contains(string(page), "deleted 4 pages") {
			t.Fatalf("%s: %v\n%s", see, err, page)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
