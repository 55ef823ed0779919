package kinds

import (
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs"
)

// TestSecretsInURLs: a parameter whose name is usual for secrets is refused in every URL of a document,
// and the error does not contain its value.
func TestSecretsInURLs(t *testing.T) {
	t.Parallel()
	const feed = "https://h/feeds/a"
	document := func(kind, source, target string, options ...string) jobs.Document {
		d := jobs.Document{Namespace: "n", Name: "j", Kind: kind, Source: source, Target: target, Placement: jobs.Placement{Node: "n"}, Options: map[string]jobs.Values{}}
		for n := 0; n < len(options); n += 2 {
			d.Options[options[n]] = jobs.Values{options[n+1]}
		}
		return d
	}
	for _, test := range []struct {
		field string // the field that is refused
		d     jobs.Document
	}{
		{"source", document("consume", feed+"?token=hunter2", "sqlite:/a.db")},
		{"source", document("consume", feed+"?page=2&api_key=hunter2", "sqlite:/a.db")},
		{"source", document("consume", feed+"?Access%5FT%6Fken=hunter2", "sqlite:/a.db")},
		{"source", document("consume", feed+"?X-Amz-Credential=A&X-Amz-Signature=hunter2", "sqlite:/a.db")},
		{"source", document("verify", feed+"?sv=1&sig=hunter2", "")},
		{"source", document("bridge couchdb", "https://h/db?key=hunter2", "s3://b/p#a")},
		{"source", document("snapshot from-feed", "s3://b/p?secret=hunter2#a", "")},
		{"target", document("consume", feed, "couchdb:https://h/db?auth=hunter2")},
		{"target", document("consume", feed, "postgres://h/d?table=t&sslpassword=hunter2")},
		{"options.from", document("consume", feed, "sqlite:/a.db", "from", "snapshot:https://h/s?token=hunter2")},
		{"options.from", document("consume", feed, "sqlite:/a.db", "from", "snapshot:https://ann:hunter2@h/s")},
		{"options.public-url", document("snapshot from-feed", "s3://b/p#a", "", "public-url", "https://h/?sig=hunter2")},
		{"", document("consume", feed+"?author=ann&keys=1&token=", "sqlite:/a.db", "from", "snapshot:https://h/s?page=1")},
		{"", document("bridge couchdb", "https://h/db", "s3://b/p#a", "selector", `{"url": "https://h/?token=1"}`)},
	} {
		var fields []string
		for _, p := range All()[test.d.Kind].Check(&test.d) {
			fields = append(fields, p.Field)
			if strings.Contains(p.Message, "hunter2") || !strings.Contains(p.Message, "credential") {
				t.Errorf("%+v: %s", test.d, p)
			}
		}
		if (test.field == "") != (len(fields) == 0) || test.field != "" && !slices.Contains(fields, test.field) {
			t.Errorf("%+v: problems with %v, want %q", test.d, fields, test.field)
		}
	}
	if err := checkSecret("postgres://h/d?table=t&sslkey=/etc/key.pem"); err != nil {
		t.Errorf("the path of a key is rejected: %v", err)
	}
}
