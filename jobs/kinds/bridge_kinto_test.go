package kinds

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/kinto"
)

// TestKintoJob tests the command line of a job that bridges from Kinto, and which server is blamed for
// the job's errors.
func TestKintoJob(t *testing.T) {
	const collection = "https://kinto.example.org/v1/buckets/b/collections/c"
	d := &jobs.Document{Namespace: "n", Name: "j", Kind: "bridge kinto", Source: collection, Target: "s3://bucket/p#a", Follow: true,
		Options: map[string]jobs.Values{"on-gone": {"delete"}}, Credentials: map[string]string{"source": "file:/kinto.txt"}}
	k := bridgeKinto
	if problems := k.Check(d); len(problems) > 0 {
		t.Error(problems)
	}
	if got, want := Command(d), "feedctl bridge kinto "+collection+" 's3://bucket/p#a' --follow --credentials-file /kinto.txt --on-gone=delete"; got != want {
		t.Errorf("command %s\nwant %s", got, want)
	}
	i := k.Identify(d)
	watch := jobs.Watch{Type: "kinto", Server: "https://kinto.example.org/v1/", Name: "b/c", Credential: "file:/kinto.txt"}
	if i.SourceOrigin != "https://kinto.example.org:443" || i.Watch != watch {
		t.Errorf("%+v", i)
	}
	long := *d
	long.Options = map[string]jobs.Values{"window": {"61s"}}
	if w := k.Identify(&long).Watch; w != (jobs.Watch{}) {
		t.Errorf("a job with a long window has the watch %+v", w)
	}
	for _, err := range []error{bridgekinto.ErrGone, bridgekinto.ErrManyGone} {
		if got := k.classify(fmt.Errorf("bridge: %w", err), i); !errors.Is(got, jobs.ErrRejected) {
			t.Errorf("%v is not final", got)
		}
	}
	for status, blamed := range map[int]bool{503: true, 429: true, 401: false, 403: false} {
		err := k.classify(&kinto.Error{Method: "GET", URL: collection, Status: status}, i)
		if at, ok := errors.AsType[*jobs.OriginError](err); ok != blamed || ok && at.Origin != i.SourceOrigin || errors.Is(err, jobs.ErrRejected) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// TestKintoBucketJob: a job that bridges a bucket is woken by changes of any of its collections, and does
// not fail for good if one of the collections does.
func TestKintoBucketJob(t *testing.T) {
	const bucket = "https://kinto.example.org/v1/buckets/b"
	d := &jobs.Document{Namespace: "n", Name: "j", Kind: "bridge kinto", Source: bucket, Target: "s3://bucket/p#k-*", Follow: true,
		Options: map[string]jobs.Values{"collections": {"z*", "a*"}}}
	k := bridgeKinto
	if problems := k.Check(d); len(problems) > 0 {
		t.Error(problems)
	}
	if got, want := Command(d), "feedctl bridge kinto "+bucket+" 's3://bucket/p#k-*' --follow '--collections=z*' '--collections=a*'"; got != want {
		t.Errorf("command %s\nwant %s", got, want)
	}
	i := k.Identify(d)
	if want := (jobs.Watch{Type: "kinto", Server: "https://kinto.example.org/v1/", Name: "b/"}); i.Watch != want || i.Target != " feed s3://bucket/p#k-*" {
		t.Errorf("%+v", i)
	}
	same := *d
	same.Source, same.Options = bucket+"/collections/", map[string]jobs.Values{"collections": {"a*", "z*"}}
	if got := k.Identify(&same); got.Work != i.Work {
		t.Errorf("work of the same job is %s, want %s", got.Work, i.Work)
	}
	for _, wrong := range []struct{ source, target, field, want string }{
		{bucket, "s3://bucket/p#k", "source", `want one "*"`},
		{bucket, "s3://bucket/p#k-*-*", "target", `want one "*"`},
		{bucket, "k-*", "target", "is not STORE#NAME"},
		{bucket + "/collections/c", "s3://bucket/p#k-*", "source", "'*'"},
		{bucket + "/collections/c", "s3://bucket/p#k", "options.collections", "URL of a bucket"},
		{"https://kinto.example.org/v1", "s3://bucket/p#k-*", "source", "does not name a collection"},
	} {
		w := *d
		w.Source, w.Target = wrong.source, wrong.target
		if wrong.field != "options.collections" {
			w.Options = nil
		}
		problems := k.Check(&w)
		if len(problems) != 1 || problems[0].Field != wrong.field || !strings.Contains(problems[0].Message, wrong.want) {
			t.Errorf("%s to %s: %+v", wrong.source, wrong.target, problems)
		}
	}
	gone := &bridgekinto.BucketError{Failed: []error{bridgekinto.ErrGone}, Of: 2}
	if err := k.classify(fmt.Errorf("bridge: %w", gone), i); errors.Is(err, jobs.ErrRejected) {
		t.Errorf("%v is taken to be permanent", err)
	}
	down := &bridgekinto.BucketError{Failed: []error{&kinto.Error{Method: "GET", URL: bucket, Status: 503}}, Of: 2}
	if at, ok := errors.AsType[*jobs.OriginError](k.classify(down, i)); !ok || at.Origin != i.SourceOrigin {
		t.Errorf("%v is not blamed on the server", down)
	}
}
