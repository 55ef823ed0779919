package kinds

import (
	"errors"
	"fmt"
	"testing"

	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/kinto"
)

// TestKintoJob: what a job of a bridge from Kinto is as a command, and whose its errors are.
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
