package couchdb

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// copied copies the store of r, and returns a rig with the copy and with its own index and target. The
// copying is interrupted by the operation with the number end, or completed if end is 0.
func (r *rig) copied(to storage.Store, end int) *rig {
	r.t.Helper()
	other := *r
	other.store, other.dir = to, r.t.TempDir()
	other.configure = func(c *Config) {
		r.configure(c)
		c.Target = "copy"
	}
	target := fault.Wrap(to, func(op fault.Op) fault.Outcome {
		if end > 0 && op.N >= end {
			return fault.Lost
		}
		return fault.Pass
	})
	err := replica.New(r.store, target, replica.Config{}).Run(r.t.Context())
	if end == 0 && err != nil {
		r.t.Fatal(err)
	}
	return &other
}

// TestCopied: a bridge that continues on a copy of its feed neither loses nor repeats anything, whether
// the copy is complete or was interrupted. The quarantine is copied and can be retried.
func TestCopied(t *testing.T) {
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, end := range []int{0, 5, 9, 12, 15, 20} {
				r := newRig(t)
				r.options = options
				if name == "rows" { // so that the bridge has nothing but the feed
					r.fake.Inject(0, couchtest.On(http.MethodPut, "/_local/"), couchtest.Refuse(http.StatusForbidden, "forbidden", "read only"))
				}
				r.configure = func(c *Config) { c.MaxDocument, c.Producer.MaxPageEntities = 5000, 4 }
				large := func(mark string) string { return fmt.Sprintf(`{"t":%q}`, mark+strings.Repeat("x", 6000)) }
				r.fill(0, 5)
				r.put("large", large("1"))
				r.fill(5, 10)
				r.run()
				to := memory.New()
				r.copied(to, 0) // an earlier copy
				r.put("larger", large("2"))
				r.fill(10, 30)
				r.run()

				continued := r.copied(to, end)
				before := continued.events()
				continued.fill(30, 33)
				report := continued.run()
				if end == 0 && (report.Published != 3 || report.Rows > 3 || !maps.Equal(continued.quarantined(), r.quarantined())) {
					t.Errorf("published %+v, in quarantine %v", report, continued.quarantined())
				}
				if got := len(continued.events()) - len(before); int64(got) != report.Published {
					t.Errorf("copy ended at %d: %d entities are new, %d were published", end, got, report.Published)
				}
				continued.check("large", "larger")
				continued.configure = func(c *Config) { c.Target = "copy" }
				b := continued.open(continued.store)
				retried, err := b.Retry(t.Context())
				if err != nil || retried.Published != 2 || retried.Left != 0 {
					t.Errorf("copy ended at %d: retried %+v, %v", end, retried, err)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				continued.check()
				if report := continued.run(); report.Published != 0 {
					t.Errorf("copy ended at %d: published %+v", end, report)
				}
			}
		})
	}
}
