package digests_test

import (
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestNewest: the last digest is the newest, even if the clock has not moved.
func TestNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for range 20 {
			r, err := write(t.Context(), store, 3, 0, digests.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if newest, err := digests.Newest(t.Context(), store, "f"); err != nil || newest != r.ID {
				t.Fatalf("newest digest is %s, not %s: %v", newest, r.ID, err)
			}
		}
	})
}
