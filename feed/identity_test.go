package feed_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestNewID(t *testing.T) {
	a, b := feed.NewID(), feed.NewID()
	if a == b || !feed.ValidID(a) || !feed.ValidID(b) {
		t.Errorf("%q and %q", a, b)
	}
	for _, id := range []string{"", "x", a[1:], a + "00", strings.Repeat("AB", 16), strings.Repeat("zz", 16)} {
		if feed.ValidID(id) {
			t.Errorf("%q is valid", id)
		}
	}
}
