package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/task"
)

// TestBridgeKinto publishes a collection, and then its changes. The feed must match the collection.
func TestBridgeKinto(t *testing.T) {
	collection, dir := kintotest.Start(t, kintotest.Memory).NewCollection(t), t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("FEEDCTL_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	t.Setenv("FEEDCTL_AGAINST_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	put := func(id, data string) {
		kintotest.Send(t, http.MethodPut, collection+"/records/"+id, `{"data":`+data+`}`)
	}
	bridge := func(flags ...string) task.KintoBridged {
		t.Helper()
		var result task.KintoBridged
		out := mustRun(t, "", append([]string{"bridge", "kinto", collection, store + "#things", "--json"}, flags...)...)
		if err := json.Unmarshal([]byte(out), &result); err != nil || !result.OK || result.Source != collection || result.Feed != "things" {
			t.Fatalf("%s: %v", out, err)
		}
		mustRun(t, "", "verify", store+"#things", "--against", "kinto:"+collection, "--deep")
		return result
	}
	for n := range 5 {
		put(fmt.Sprint("r", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	if r := bridge("--snapshot"); r.Published != 5 || r.Snapshot == nil || *r.Snapshot.Entities != 5 {
		t.Errorf("%+v", r)
	}
	kintotest.Send(t, http.MethodDelete, collection+"/records/r1", "")
	put("r2", `{"n":20}`)
	if r := bridge(); r.Published != 2 {
		t.Errorf("%+v", r)
	}
	if r := bridge(); r.Published != 0 {
		t.Errorf("%+v", r)
	}
	put("large", `{"text":"`+strings.Repeat("x", 5000)+`"}`)
	mustRun(t, "", "bridge", "kinto", collection, store+"#things", "--max-record", "1000", "--max-quarantine", "1")
	if out := mustRun(t, "", "bridge", "quarantine", store+"#things"); !strings.Contains(out, `"large"`) {
		t.Errorf("quarantine has %s", out)
	}
	if out := mustRun(t, "", "bridge", "quarantine", store+"#things", "--retry", collection); !strings.Contains(out, "published 1 entity") {
		t.Errorf("retry: %s", out)
	}
	bridge()
}

// TestBridgeKintoFollow: Ctrl-C ends a bridge that follows, which prints what it has done.
func TestBridgeKintoFollow(t *testing.T) {
	collection, dir := kintotest.Start(t, kintotest.Memory).NewCollection(t), t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("FEEDCTL_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	kintotest.Send(t, http.MethodPut, collection+"/records/a", `{"data":{"n":1}}`)
	ctx, cancel := context.WithCancelCause(t.Context())
	var out, log bytes.Buffer
	var code int
	var bridge sync.WaitGroup
	bridge.Go(func() {
		args := []string{"bridge", "kinto", collection, store + "#things", "--follow", "--interval", "100ms"}
		code = run(ctx, args, app.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	})
	mustRun(t, "", "init", store)
	mustRun(t, "", "tail", store+"#things", "--from", "beginning", "--limit", "1")
	kintotest.Send(t, http.MethodPut, collection+"/records/b", `{"data":{"n":2}}`)
	mustRun(t, "", "tail", store+"#things", "--from", "beginning", "--limit", "2")
	cancel(exit.ErrInterrupted)
	bridge.Wait()
	if code != exit.Interrupted || !strings.HasPrefix(out.String(), "published 2 entities of "+collection+" to things") {
		t.Errorf("exit status %d: %s%s", code, &out, &log)
	}
}

// TestBridgeKintoWrong: errors name the remedy, and no secrets.
func TestBridgeKintoWrong(t *testing.T) {
	collection, dir := kintotest.Start(t, kintotest.Memory).NewCollection(t), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"http://h/v1", exit.Usage, "/collections/COLLECTION"},
		{"http://ann:hunter2@h/v1/buckets/b/collections/c", exit.Usage, "credentials"},
		{collection + " --reconcile often", exit.Usage, "--reconcile"},
		{collection + " --attachments multipart", exit.Usage, "none, stub, inline"},
		{collection + " --on-gone ignore", exit.Usage, "stop, delete"},
		{collection + " --max-gone 101", exit.Usage, "--max-gone"},
		{collection + " --window 0s", exit.Usage, "--window"},
		{collection + "-other", exit.NotFound, "--on-gone delete"},
	} {
		args := append([]string{"bridge", "kinto"}, strings.Fields(test.args)...)
		code, _, stderr := feedctl(t, "", append(args, "file:"+filepath.Join(dir, "store")+"#things")...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: exit status %d, want %d: %s", test.args, code, test.code, stderr)
		}
	}
}
