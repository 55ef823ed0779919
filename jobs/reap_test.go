package jobs_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestMayReap: a node may declare others lost once its heartbeats have succeeded for the time of a
// lease, without a long gap.
func TestMayReap(t *testing.T) {
	t.Parallel()
	const second = time.Second
	lease := jobs.Defaults().Lease
	regular := slices.Repeat([]time.Duration{3 * second}, 4)
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name string
			gaps []time.Duration
			want bool
		}{
			{"it has just joined, perhaps after the database was unavailable", nil, false},
			{"it joined a while ago", regular[:3], false},
			{"it joined a lease ago", regular, true},
			{"the database is slow", slices.Repeat([]time.Duration{lease - 4*second}, 4), true},
			{"the database was unavailable", append(regular[:4:4], lease-3*second), false},
			{"the database was unavailable a lease ago", slices.Concat(regular, []time.Duration{lease}, regular), true},
		} {
			if got := jobs.MayReap(test.gaps...); got != test.want {
				t.Errorf("%s: may reap: %v, want %v", test.name, got, test.want)
			}
		}
	})
}
