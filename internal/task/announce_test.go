package task

import (
	"strings"
	"testing"
)

// TestAnnounced: the names that are announced contain no secrets or directories.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, into, want string }{
		{"stock", "jsonl:a.jsonl", "stock"},
		{"none", "jsonl:a.jsonl", ""},
		{"", "-", "stdout"},
		{"", "jsonl:/home/kim/zones.jsonl", "jsonl:zones.jsonl"},
		{"", "dir:/home/kim/zones/", "dir:zones"},
		{"", `dir:C:\Users\kim\zones`, "dir:zones"},
		{"", "dir:/", "dir"},
		{"", "sqlite:/home/kim/zones.db?table=zones", "sqlite:zones"},
		{"", "postgres://kim:s3cret@db.example.org/shop?table=public.products&password=s3cret", "postgres:public.products"},
		{"", "postgres://kim:s3cret@db.example.org", "postgres"},
		{"", "postgres://kim:s3/cret@db.example.org", "postgres"},
		{"", "postgres://kim:s3cret@db.example.org/shop", "postgres:shop"},
		{"", "couchdb:https://db.example.org/zones", "couchdb:zones"},
		{"", "kinto:https://kinto.example.org/v1/buckets/dns/collections/zones?name=second", "kinto:second"},
		{"", "jsonl:/tmp/pr\u00e9nom\n.jsonl", "jsonl:pr_nom_.jsonl"},
		{"", "jsonl:" + strings.Repeat("n", 200), "jsonl:" + strings.Repeat("n", 58)},
		{"", "nothing", ""},
	} {
		if got := announced(test.name, test.into); got != test.want {
			t.Errorf("--announce %q --into %q is announced as %q, want %q", test.name, test.into, got, test.want)
		}
	}
	for _, name := range []string{" a", "a\nb", strings.Repeat("n", 65)} {
		if checkAnnounce(name) == nil {
			t.Errorf("--announce %q is accepted", name)
		}
	}
}
