package couchdb

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/bridge/internal/bridgetest"
	"github.com/feedctl/feedctl/storage/fault"
)

// TestWinnerReturnsSoon: a losing revision wins again while the one that replaced it is still being
// published.
func TestWinnerReturnsSoon(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"loser in the feed": true, "both in flight": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.options = Options{Revs: true}
			r.fill(0, 1)
			first := func() { r.graft("a", false, `"v":"first"`, "2-b", "1-a") }
			if known {
				first()
			}
			r.run()
			blocked, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			slow := *r
			slow.store = fault.Wrap(r.store, func(op fault.Op) fault.Outcome {
				if op.Verb.Writes() {
					once.Do(func() { close(blocked) })
					<-release
				}
				return fault.Pass
			})
			slow.configure = func(c *Config) { c.Follow = true }
			stop := slow.started()
			if !known {
				first()
				<-blocked
			}
			r.graft("a", false, `"v":"second"`, "2-c", "1-a")
			// When a document is requested, the rows before its own have been read.
			r.whenAsked("then", func() {
				r.graft("a", true, `"v":0`, "3-d", "2-c", "1-a")
				r.put("last", `{}`)
			})
			r.whenAsked("last", func() { close(release) })
			r.put("then", `{}`)
			last := func(pair string) bool { return strings.HasPrefix(pair, "last@") }
			for n := 1; !slices.ContainsFunc(r.pairs(), last); n++ {
				r.await(n)
			}
			if _, err := stop(); err == nil || !strings.Contains(err.Error(), "enough") {
				t.Error(err)
			}
			r.run()
			r.check()
			if ids := r.events(); !slices.ContainsFunc(ids, func(e bridgetest.Event) bool { return e.ContentID == "<a@2-b;after=2-c>" }) {
				t.Errorf("feed has %q", r.pairs())
			}
		})
	}
}

// whenAsked calls a function when a document is requested.
func (r *rig) whenAsked(id string, do func()) {
	asked := func(q *http.Request) bool {
		body, err := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		return err == nil && strings.HasSuffix(q.URL.Path, "/_bulk_get") && bytes.Contains(body, fmt.Appendf(nil, `"id":%q`, id))
	}
	r.fake.Inject(1, asked, func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		do()
		healthy(w, q)
	})
}
