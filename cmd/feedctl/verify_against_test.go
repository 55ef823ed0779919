package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/task"
)

// TestVerifyAgainst compares a feed, in a store and on a server, with a collection.
func TestVerifyAgainst(t *testing.T) {
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	store := "file:" + filepath.Join(t.TempDir(), "store")
	t.Setenv("FEEDCTL_AGAINST_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	publish := func(id, operation, tag, body string) {
		mustRun(t, "--x\r\nContent-Type: application/json\r\nContent-Location: "+id+"\r\nOperation-Type: http-equiv="+operation+"\r\nETag: "+tag+"\r\n\r\n"+body+"\r\n--x--",
			"publish", store+"#things", "--format", "multipart")
	}
	put := func(id, data string) (record string) {
		answer := kintotest.Send(t, http.MethodPut, collection+"/records/"+id, `{"data":`+data+`}`)
		var r struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(answer), &r); err != nil {
			t.Fatal(err)
		}
		return string(r.Data)
	}
	stamp := func(record string) string {
		var r struct {
			Stamp int64 `json:"last_modified"`
		}
		if err := json.Unmarshal([]byte(record), &r); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`"%d"`, r.Stamp)
	}
	a, b := put("a", `{"n":1}`), put("b", `{"n":2}`)
	publish("a", "PUT", stamp(a), a)
	verify := func(want int, where string, flags ...string) task.Verified {
		t.Helper()
		args := append([]string{"verify", where, "--against", "kinto:" + collection, "--json"}, flags...)
		code, out, stderr := feedctl(t, "", args...)
		if code != want {
			t.Fatalf("exit status %d, want %d: %s", code, want, stderr)
		}
		var result task.Verified
		if err := json.Unmarshal([]byte(out), &result); err != nil || result.Against == nil {
			t.Fatalf("%s: %v", out, err)
		}
		return result
	}
	result := verify(exit.Invalid, store+"#things")
	if d := result.Against.Differences; len(d) != 1 || d[0].Key != "b" || d[0].Kind != "missing" || result.Entities != 1 {
		t.Errorf("%+v", result)
	}
	publish("b", "PUT", stamp(b), b)
	url := serveStore(t, store) + "/feeds/things"
	for _, where := range []string{store + "#things", url} {
		if result := verify(exit.OK, where, "--deep"); result.Against.Items != 2 || result.Against.Keys != 2 || result.Violations == nil {
			t.Errorf("%+v", result)
		}
	}
	out := mustRun(t, "", "verify", store+"#things", "--against", "kinto:"+collection)
	if !strings.HasSuffix(out, ": no differences\n") {
		t.Errorf("printed %s", out)
	}
	c := put("c", `{"n":3}`)
	publish("c", "PUT", stamp(c), strings.Replace(c, `"n":3`, `"n":4`, 1))
	verify(exit.OK, url)
	if d := verify(exit.Invalid, url, "--deep").Against.Differences; len(d) != 1 || d[0].Kind != "body" {
		t.Errorf("%+v", d)
	}
	mustRun(t, "", "snapshot", "from-feed", store+"#things")
	mustRun(t, "", "prune", store+"#things", "--before-snapshot", "things")
	verify(exit.OK, store+"#things", "--from", "snapshot")
}

// TestVerifyAgainstCopy compares a feed with the copy that consume made of it.
func TestVerifyAgainstCopy(t *testing.T) {
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	feed := "file:" + filepath.Join(t.TempDir(), "store") + "#things"
	t.Setenv("FEEDCTL_INTO_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	t.Setenv("FEEDCTL_AGAINST_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	publish := func(id, fields, body string) {
		mustRun(t, "--x\r\nContent-Type: application/json\r\nContent-Location: "+id+"\r\n"+fields+"\r\n"+body+"\r\n--x--", "publish", feed, "--format", "multipart")
	}
	publish("a", "", `{"n":1}`)
	publish("b%2Fc", "", `{"n":1.50}`)
	mustRun(t, "", "consume", feed, "--into", "kinto:"+collection)
	against := []string{"verify", feed, "--against", "kinto:" + collection}
	for _, flags := range [][]string{nil, {"--deep"}} {
		if out := mustRun(t, "", append(against, flags...)...); !strings.Contains(out, "2 keys, the copy has 2 items at ") || !strings.HasSuffix(out, ": no differences\n") {
			t.Errorf("printed %s", out)
		}
	}
	kintotest.Send(t, http.MethodPatch, collection+"/records/a", `{"data":{"n":2}}`)
	if code, out, _ := feedctl(t, "", append(against, "--deep")...); code != exit.Invalid || !strings.Contains(out, `body: the bodies of "a" in version <`) {
		t.Errorf("exit status %d: %s", code, out)
	}
	kintotest.Send(t, http.MethodDelete, collection+"/records/a", "")
	if code, out, _ := feedctl(t, "", against...); code != exit.Invalid || !strings.Contains(out, "which the copy does not have\n") {
		t.Errorf("exit status %d: %s", code, out)
	}
	publish("k", "ETag: \"1700\"\r\n", `{"id":"k","last_modified":1700}`)
	mustRun(t, "", "consume", feed, "--into", "kinto:"+collection)
	if code, _, stderr := feedctl(t, "", against...); code != exit.Error || !strings.Contains(stderr, `"k": the collection is a copy`) || !strings.Contains(stderr, "--deep") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// TestVerifyAgainstWrong: errors name the remedy, and no secrets.
func TestVerifyAgainstWrong(t *testing.T) {
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("session hunter2:hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--against kinto:" + strings.Replace(collection, "http://", "http://ann:hunter2@", 1), exit.Usage, "--against-credentials-file"},
		{"--against mongodb:http://h/", exit.Usage, "want couchdb:https://"},
		{"--against couchdb:http://h/db --deep", exit.Usage, "--deep is not for couchdb:"},
		{"--against postgres://h:x/db", exit.Usage, "--against"},
		{"--against kinto:http://h/v1/buckets/b", exit.Usage, "/collections/COLLECTION"},
		{"--against kinto:" + collection + " --index", exit.Usage, "--index for snapshots"},
		{"--against kinto:" + collection + " --from latest", exit.Usage, "not one of beginning, snapshot"},
		{"--deep", exit.Usage, "--against"},
		{"--against kinto:" + collection + "-other", exit.NotFound, "no such bucket or collection"},
		{"--against kinto:" + collection + " --against-credentials-file " + file, exit.Error, "want basic USER:PASSWORD"},
	} {
		code, _, stderr := feedctl(t, "", append([]string{"verify", store + "#zones"}, strings.Fields(test.flags)...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: exit status %d, want %d: %s", test.flags, code, test.code, stderr)
		}
	}
}
