package suggest_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/suggest"
)

func TestClosest(t *testing.T) {
	names := []string{"zones", "prices", "products"}
	for name, want := range map[string]string{
		"zone": "zones", "zonse": "zones", "zomes": "zones", "pricess": "prices", "pirces": "prices",
		"zones": "", "x": "", "": "", "orders": "",
	} {
		if got := suggest.Closest(name, names); got != want {
			t.Errorf("%q is closest to %q, want %q", name, got, want)
		}
	}
}
