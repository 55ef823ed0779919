package feed_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestEncodeKey(t *testing.T) {
	for key, want := range map[string]string{
		"":               "",
		"Europe":         "Europe",
		"Europe/Berlin":  "Europe%2FBerlin",
		"a b":            "a%20b",
		"a+b":            "a%2Bb",
		"100%":           "100%25",
		"%2F":            "%252F",
		"Zürich":         "Z%C3%BCrich",
		"\xff\x00\r\n":   "%FF%00%0D%0A",
		"-._~":           "-._~",
		"http://x/?q=1#": "http%3A%2F%2Fx%2F%3Fq%3D1%23",
	} {
		if got := feed.EncodeKey(key); got != want {
			t.Errorf("EncodeKey(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	for location, want := range map[string]string{
		"":                  "",
		"Europe%2FBerlin":   "Europe/Berlin",
		"Europe/Berlin":     "Europe/Berlin",
		"a+b":               "a+b",
		"50%":               "50%",
		"50%zz":             "50%zz",
		"https://x/a%20b?c": "https://x/a b?c",
	} {
		if got := (&feed.Entity{ContentLocation: location}).Key(); got != want {
			t.Errorf("Key of %q = %q, want %q", location, got, want)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("Europe/Berlin")
	f.Add("\xff%00 +")
	f.Fuzz(func(t *testing.T, key string) {
		e := feed.Entity{ContentType: "text/plain", ContentLocation: feed.EncodeKey(key)}
		if got := e.Key(); got != key {
			t.Fatalf("key %q is read back as %q", key, got)
		}
		if err := e.Check(false); len(e.ContentLocation) < feed.MaxHeader/2 && err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		if u, err := url.Parse(e.ContentLocation); err != nil || u.IsAbs() || strings.ContainsAny(u.Path, "\r\n") && !strings.ContainsAny(key, "\r\n") {
			t.Fatalf("key %q: %q is not a relative reference: %v", key, e.ContentLocation, err)
		}
	})
}
