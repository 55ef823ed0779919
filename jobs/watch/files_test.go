package watch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// TestFilesWakes: a change, a new feed and a deletion wake a job at once, or within 11 s if there are no
// notifications.
func TestFilesWakes(t *testing.T) {
	for name, within := range map[string]time.Duration{"notifies": 200 * time.Millisecond, "does not": 11 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inStoreWorld(t, 6, func(t *testing.T, w *storeWorld) {
				w.source = filesSource
				w.jobs.states["new"] = ""
				if name == "does not" {
					w.Store = struct{ storage.Store }{w.Store}
				}
				stop := w.watch(t)
				wakes := func(what, name string) {
					t.Helper()
					time.Sleep(time.Minute)
					w.jobs.take()
					if what == "deletion" {
						if _, err := chain.Delete(t.Context(), w, name); err != nil {
							t.Fatal(err)
						}
					} else {
						publish(t, w, name)
					}
					time.Sleep(within)
					synctest.Wait()
					if got := w.jobs.take(); got != name {
						t.Errorf("%s: woken: %q, want %q", what, got, name)
					}
				}
				for range 5 { // more entities than a page has room for
					wakes("change", "f002")
				}
				wakes("new feed", "new")
				wakes("deletion", "f003")
				stop()
			})
		})
	}
}

// TestFilesBusy: a feed that changes constantly wakes its job at most ten times a second.
func TestFilesBusy(t *testing.T) {
	inStoreWorld(t, 3, func(t *testing.T, w *storeWorld) {
		w.source = filesSource
		stop := w.watch(t)
		time.Sleep(time.Minute)
		before := w.jobs.wakings("f001")
		for range 300 {
			publish(t, w, "f001")
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.jobs.wakings("f001") - before; n < 10 || n > 32 {
			t.Errorf("woken %d times in 3 s", n)
		}
		stop()
	})
}
