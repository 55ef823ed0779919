package kinds

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/jobs"
)

// TestProblems: all problems of a document are reported at once, each with its field. Problems that
// only follow from others are not reported.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, source, target string
		options              string // NAME=VALUE, separated by spaces
		want                 string // fields
	}{
		{"consume", "https://h/feeds/a", "couchdb:http://h/a",
			"on-gap=nope batch-bytes=-4 batch-entities=-1 key=nopointer from=now header=novalue allow-origin=h columns=id=/id",
			"options.allow-origin options.batch-bytes options.batch-entities options.columns options.from options.header options.key options.on-gap"},
		{"consume", "https://h/feeds/a", "postgres://h/d?table=t", "columns=id key=nopointer", "options.columns options.key"},
		{"consume", "nowhere", "jsonl:relative", "retries=many unknown=1 on-gap=nope", "options.on-gap options.retries options.unknown source target"},
		{"bridge couchdb", "https://h", "s3://b/p", "max-document=-1 max-page-bytes=0 max-page-entities=0 attachments=some selector={ query=x filter=a/b long-poll=true",
			"options.attachments options.long-poll options.max-document options.max-page-bytes options.max-page-entities options.query options.selector source target"},
		{"bridge couchdb", "https://h/db", "s3://b/p#a", "query=feed=x attachments=some snapshot=true conflicts=true", "options.attachments options.query options.snapshot"},
		{"bridge couchdb", "https://h/db", "s3://b/p#a", "view=a/b filter=a/b attachments=some", "options.attachments options.filter"},
		{"outbox run", "https://h/db", "s3:", "", "options.feed source target"},
		{"outbox run", "postgres://h/db", "", "feed=..", "options.feed"},
		{"snapshot from-feed", "https://h/feeds/a", "", "key=nopointer name=.. public-url=h presign=1ms", "options.key options.name options.presign options.presign options.public-url source"},
		{"prune", "x", "https://h/feeds/a", "keep-age=-1h keep-pages=-1", "options.keep-age options.keep-pages source target"},
		{"prune", "", "s3://b/p#a", "keep-age=long", "options.keep-age"},
		{"retain", "x", "https://h/feeds/a", "keep-age=3d", "options.keep-age source target"},
		{"verify", "nowhere", "x", "index=true state=/f allow-origin=h header=novalue", "options.allow-origin options.header options.state source target"},
	} {
		d := jobs.Document{Namespace: "n", Name: "j", Kind: test.kind, Source: test.source, Target: test.target, Options: map[string]jobs.Values{}}
		for option := range strings.FieldsSeq(test.options) {
			name, value, _ := strings.Cut(option, "=")
			d.Options[name] = jobs.Values{value}
		}
		k := All()[test.kind]
		problems := k.Check(&d)
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
			if strings.Contains(p.Message, "--") || strings.Contains(p.Message, "\n") {
				t.Errorf("%s: %q is worded for the command line, not for a document", test.kind, p.Message)
			}
		}
		slices.Sort(fields)
		if diff := cmp.Diff(strings.Fields(test.want), fields); diff != "" {
			t.Errorf("%s %s: %s\n%v", test.kind, test.options, diff, jobs.InvalidError(problems))
		}
	}
}
