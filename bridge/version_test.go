package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestContentID(t *testing.T) {
	long := strings.Repeat("ü", 400)
	sum := sha256.Sum256([]byte(long))
	for p, want := range map[Version]string{
		{"a", "1-x"}:           "<a@1-x>",
		{"_design/a b", "1-x"}: "<_design%2Fa%20b@1-x>",
		{"a@1-x", "2-y"}:       "<a%401-x@2-y>",
		{"sha256:00", "1-x"}:   "<sha256%3A00@1-x>",
		{long, "1-x"}:          "<sha256:" + hex.EncodeToString(sum[:]) + "@1-x>",
	} {
		if got := p.ContentID(); got != want {
			t.Errorf("Content-ID of %q is %s, want %s", p, got, want)
		}
		if e := p.Entity(feed.Put, "application/json"); e.Check(true) != nil || e.Key() != p.ID {
			t.Errorf("entity of %q: %v, key %q", p, e.Check(true), e.Key())
		}
		if back, ok := VersionOf(p.Entity(feed.Put, "application/json").ContentLocation, p.Entity(feed.Put, "application/json").Header[0].Value); !ok || back != p {
			t.Errorf("version %q is read back as %q, %v", p, back, ok)
		}
	}
	if got, want := (Version{ID: "a", Rev: "2-x"}).ContentIDOver("3-y"), "<a@2-x;after=3-y>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, other := range [][2]string{{"", `"1-x"`}, {"a", ""}, {"a", `""`}, {"a", `"`}, {"a", "1-x"}} {
		if p, ok := VersionOf(other[0], other[1]); ok {
			t.Errorf("%q is mistaken for the entity of %q", other, p)
		}
	}
}
