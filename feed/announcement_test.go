package feed_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// TestAnnouncement writes announcements and reads them back.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_735_689_600, 0).UTC()
	position := feed.Position{LastModified: at, ContentID: "<a@b>", Page: "https://user:secret@example.org/feeds/zones/pages/17?X-Signature=s#f", Prev: "00"}
	for name, test := range map[string]struct {
		a    feed.Announcement
		want string
	}{
		"name only": {feed.Announce("stock", feed.Position{}), `name="stock"`},
		"position":  {feed.Announce("stock", position), `name="stock", at=@1735689600, id="<a@b>", page="/feeds/zones/pages/17"`},
		"snapshot":  {feed.Announce("s", feed.Position{Snapshot: &feed.SnapshotPosition{Index: "https://example.org/i?token=secret", Page: 3}}), `name="s", snapshot=3`},
		"filling":   {feed.Announce("s", feed.Position{LastModified: at, Tail: &feed.TailPosition{}}), `name="s", at=@1735689600, filling`},
		"quoted":    {feed.Announcement{Name: `a"b\c, d=1`, ContentID: `"`}, `name="a\"b\\c, d=1", id="\""`},
	} {
		got := test.a.Header()
		if got != test.want {
			t.Errorf("%s: header is %s, want %s", name, got, test.want)
		}
		back, err := feed.ParseAnnouncement(http.Header{feed.ConsumerHeader: {got}})
		if err != nil || back != test.a {
			t.Errorf("%s: read back as %+v, %v; want %+v", name, back, err, test.a)
		}
	}
	for name, a := range map[string]feed.Announcement{
		"id":   {Name: "n", ContentID: "é"},
		"path": {Name: "n", Page: "/" + strings.Repeat("p", 300)},
	} {
		if got := a.Header(); got != `name="n"` {
			t.Errorf("%s that cannot be sent: header is %s", name, got)
		}
	}
	for _, name := range []string{"", "é", "a\nb", " a", strings.Repeat("n", 65)} {
		if got := (feed.Announcement{Name: name}).Header(); got != "" {
			t.Errorf("name %q is sent: %s", name, got)
		}
	}
}

// TestParseAnnouncement parses fields that other programs, or attackers, may send.
func TestParseAnnouncement(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":         "",
		`name="n"`: "n",
		`future=("a" "b,c"), name="n" , x=:YQ==:`: "n",
		`name="a", name="b"`:                      "b", // RFC 9651, section 4.2.2
		`name="n", filling=?0`:                    "n",
		`at=@1735689600`:                          "error",
		`name=n`:                                  "error",
		`name="n`:                                 "error",
		`name="`:                                  "error",
		`name=""`:                                 "error",
		`name="\n"`:                               "error",
		`name="a"b"`:                              "error",
		`name="n\"`:                               "error",
		"name=\"a\x00b\"":                         "error",
		"name=\"\x1b[31m\"":                       "error",
		`name="é"`:                                "error",
		`name="n", at=1735689600`:                 "error",
		`name="n", at=@-1`:                        "error",
		`name="n", at=@999999999999999`:           "error",
		`name="n", snapshot=-1`:                   "error",
		`name="n", snapshot=many`:                 "error",
		`name="n", id="` + strings.Repeat("i", 257) + `"`:        "error",
		`name="` + strings.Repeat("n", 65) + `"`:                 "error",
		`name="n", x="` + strings.Repeat("very long", 200) + `"`: "error",
	} {
		a, err := feed.ParseAnnouncement(http.Header{feed.ConsumerHeader: {value}})
		if got := a.Name; err != nil && (want != "error" || !errors.Is(err, feed.ErrInvalidHeader) || a != (feed.Announcement{})) || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", value, got, err, want)
		}
	}
}

// TestCleanConsumerName turns strings into valid names.
func TestCleanConsumerName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", " zones ": "zones", "a\nb": "a_b", "prix_é": "prix__",
		strings.Repeat("é", 100): strings.Repeat("_", 64), strings.Repeat("n", 63) + " n": strings.Repeat("n", 63),
	} {
		if got := feed.CleanConsumerName(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzParseAnnouncement: if an announcement can be parsed, writing it and parsing the result does not change it.
func FuzzParseAnnouncement(f *testing.F) {
	f.Add(`name="stock", at=@1735689600, id="<a@b>", page="/feeds/zones/pages/17", snapshot=3, filling`)
	f.Fuzz(func(t *testing.T, value string) {
		a, err := feed.ParseAnnouncement(http.Header{feed.ConsumerHeader: {value}})
		if err != nil || a == (feed.Announcement{}) {
			return
		}
		back, err := feed.ParseAnnouncement(http.Header{feed.ConsumerHeader: {a.Header()}})
		if err != nil || back != a {
			t.Errorf("%q is %+v, and then %+v, %v", value, a, back, err)
		}
	})
}
