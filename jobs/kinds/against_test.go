package kinds

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs"
)

// TestAgainst: the target of a job of kind verify is the database or collection with which the feed is
// compared.
func TestAgainst(t *testing.T) {
	document := func(target string) *jobs.Document {
		return &jobs.Document{Namespace: "n", Name: "j", Kind: "verify", Source: "file:/data#a", Target: target, Options: map[string]jobs.Values{"deep": {"true"}},
			Credentials: map[string]string{"target": "env:KINTO"}, Placement: jobs.Placement{Node: "n"}}
	}
	const collection = "https://kinto.example.org/v1/buckets/b/collections/c"
	d := document("kinto:" + collection)
	if problems := All()["verify"].Check(d); len(problems) > 0 {
		t.Error(problems)
	}
	const want = `FEEDCTL_AGAINST_CREDENTIALS="$KINTO" feedctl verify 'file:/data#a' --against kinto:` + collection + " --deep"
	if got := Command(d); got != want {
		t.Errorf("command %s\nwant %s", got, want)
	}
	if i := All()["verify"].Identify(d); i.TargetOrigin != "https://kinto.example.org:443" {
		t.Errorf("%+v", i)
	}
	same := All()["verify"].Identify(document("kinto:https://KINTO.example.org:443/v1/buckets/b/collections/c/"))
	if same.Work != All()["verify"].Identify(d).Work {
		t.Error("another spelling of the same collection has another identity")
	}
	for target, message := range map[string]string{
		"https://kinto.example.org/v1/buckets/b":                          "is not couchdb:URL or kinto:URL",
		"kinto:https://kinto.example.org/v1/buckets/b":                    "does not name a collection",
		"kinto:" + strings.Replace(collection, "//", "//ann:hunter2@", 1): "contains a credential",
	} {
		problems := All()["verify"].Check(document(target))
		if len(problems) != 1 || problems[0].Field != "target" || !strings.Contains(problems[0].Message, message) || strings.Contains(problems[0].Message, "hunter2") {
			t.Errorf("%s: %v", target, problems)
		}
	}
}
