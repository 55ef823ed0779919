package locate

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://data.example.org/feeds/a?x=1": "",
		"ftp://data.example.org/":              "must begin with http",
		"data.example.org/feeds/a":             "must begin with http",
		"127.0.0.1:8080/feeds/a":               "must begin with http",
		"ftp://ann:hunter2@h/%zz":              "must begin with http",
		"http://ann:hunter2@h/%zz":             "cannot be parsed",
		"http://ann:the/hunter2@h/":            "cannot be parsed",
		"http:///feeds/a":                      "has no host",
		"http://a b/":                          "cannot be parsed",
		"http://h/%zz":                         "cannot be parsed",
		"http://h/feeds/a#top":                 "has a fragment",
		"https://ann:hunter2@data.example.org": "contains credentials",
	} {
		_, err := ParseURL(raw)
		switch {
		case want == "" && err != nil:
			t.Errorf("ParseURL(%q): %v", raw, err)
		case want == "":
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("ParseURL(%q): %v, want %q", raw, err, want)
		case exit.Status(err) != exit.Usage:
			t.Errorf("ParseURL(%q): exit status %d", raw, exit.Status(err))
		case strings.Contains(err.Error()+exit.Hint(err), "hunter2"):
			t.Errorf("ParseURL(%q): the error has the password: %v", raw, err)
		}
	}
}

func TestSnapshotOf(t *testing.T) {
	for feed, want := range map[string]string{
		"http://h/feeds/zones":          "http://h/snapshots/zones",
		"https://h/base/feeds/zones?q":  "https://h/base/snapshots/zones",
		"http://h/feeds/zones/pages/1":  "",
		"http://h/something/else":       "",
		"http://h/feeds/":               "",
		"http://h/feeds/..%2f..%2fetc/": "",
	} {
		got, err := snapshotOf(feed)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("snapshotOf(%q) = %q, %v, want %q", feed, got, err, want)
		}
	}
}
