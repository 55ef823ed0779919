package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// A bucketRig is a bucket of a real server, and a store for the feeds of its collections.
type bucketRig struct {
	*testing.T
	bucket, store string
}

func newBucketRig(t *testing.T, collections ...string) *bucketRig {
	collection := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	bucket, _, _ := strings.Cut(collection, "/collections/")
	kintotest.Send(t, http.MethodDelete, collection, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("FEEDCTL_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	t.Setenv("FEEDCTL_AGAINST_CREDENTIALS", "basic "+kintotest.User+":"+kintotest.Password)
	r := &bucketRig{t, bucket, "file:" + filepath.Join(t.TempDir(), "store")}
	for _, name := range collections {
		r.create(name)
	}
	return r
}

// create creates a collection with a record.
func (r *bucketRig) create(name string) {
	kintotest.Send(r, http.MethodPut, r.bucket+"/collections/"+name, "")
	kintotest.Send(r, http.MethodPut, r.bucket+"/collections/"+name+"/records/a", `{"data":{"n":1}}`)
}

// bridge publishes the bucket, and expects the given exit status.
func (r *bucketRig) bridge(status int, flags ...string) (result task.KintoBucket, stderr string) {
	r.Helper()
	code, stdout, stderr := feedctl(r.T, "", append([]string{"bridge", "kinto", r.bucket, r.store + "#k-*", "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != status {
		r.Fatalf("exit status %d, want %d: %s%s: %v", code, status, stdout, stderr, err)
	}
	return result, stderr
}

// check compares a collection with its feed.
func (r *bucketRig) check(name string) {
	r.Helper()
	mustRun(r.T, "", "verify", r.store+"#k-"+name, "--against", "kinto:"+r.bucket+"/collections/"+name, "--deep")
}

// TestBridgeBucket publishes the collections of a bucket that patterns select, each to its own feed, and
// treats collections that are gone as --on-gone says.
func TestBridgeBucket(t *testing.T) {
	r := newBucketRig(t, "hosts", "users", "zones")
	result, _ := r.bridge(exit.OK, "--collections", "h*", "--collections", "zones", "--snapshot")
	if len(result.Collections) != 2 || !result.OK || result.Published != 2 || result.Source != r.bucket {
		t.Errorf("%+v", result)
	}
	for _, one := range result.Collections {
		if !one.OK || one.Published != 1 || one.Snapshot == nil || one.Snapshot.Name != one.Feed {
			t.Errorf("%+v", one)
		}
	}
	kintotest.Send(t, http.MethodDelete, r.bucket+"/collections/zones/records/a", "")
	index := t.TempDir()
	if result, _ = r.bridge(exit.OK, "--index", index); len(result.Collections) != 3 || result.Published != 2 {
		t.Errorf("%+v", result)
	}
	if files, err := filepath.Glob(filepath.Join(index, "k-*.index")); err != nil || len(files) != 3 {
		t.Errorf("the directory of indexes has %q: %v", files, err)
	}
	for _, name := range []string{"hosts", "users", "zones"} {
		r.check(name)
	}
	out := mustRun(t, "", "bridge", "kinto", r.bucket, r.store+"#k-*")
	if !strings.HasSuffix(out, "published 0 entities of 3 collections\n") || !strings.Contains(out, "published 0 entities of "+r.bucket+"/collections/users to k-users, 1 were in the feed already\n") {
		t.Errorf("output: %s", out)
	}

	kintotest.Send(t, http.MethodDelete, r.bucket+"/collections/users", "")
	r.create("roles")
	result, stderr := r.bridge(exit.NotFound)
	if result.OK || result.Published != 1 || !strings.Contains(stderr, "1 of 4 collections failed") || !strings.Contains(stderr, "--on-gone delete") {
		t.Errorf("%+v: %s", result, stderr)
	}
	for _, one := range result.Collections {
		if one.OK != (one.Feed != "k-users") || one.OK != (one.Error == "") {
			t.Errorf("%+v", one)
		}
	}
	if result, _ = r.bridge(exit.OK, "--on-gone", "delete"); result.Published != 1 {
		t.Errorf("%+v", result)
	}
	r.create("users")
	r.bridge(exit.OK)
	r.check("users")
}

// TestBridgeBucketFollow: a bucket is followed until Ctrl-C, including its new collections.
func TestBridgeBucketFollow(t *testing.T) {
	r := newBucketRig(t, "zones")
	ctx, cancel := context.WithCancelCause(t.Context())
	var out, log bytes.Buffer
	var code int
	var bridge sync.WaitGroup
	bridge.Go(func() {
		args := []string{"bridge", "kinto", r.bucket, r.store + "#k-*", "--follow", "--interval", "50ms"}
		code = run(ctx, args, app.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	})
	mustRun(t, "", "init", r.store)
	mustRun(t, "", "tail", r.store+"#k-zones", "--from", "beginning", "--limit", "1")
	r.create("users")
	mustRun(t, "", "tail", r.store+"#k-users", "--from", "beginning", "--limit", "1")
	cancel(exit.ErrInterrupted)
	bridge.Wait()
	if code != exit.Interrupted || !strings.HasSuffix(out.String(), "published 2 entities of 2 collections\n") {
		t.Errorf("exit status %d: %s%s", code, &out, &log)
	}
}

// TestBridgeBucketWrong: errors say what to write instead.
func TestBridgeBucketWrong(t *testing.T) {
	r := newBucketRig(t, "zones")
	quarantined := r.bucket + "/collections/zones/records/large"
	kintotest.Send(t, http.MethodPut, quarantined, `{"data":{"text":"`+strings.Repeat("x", 5000)+`"}}`)
	kintotest.Send(t, http.MethodDelete, r.bucket+"/collections/zones/records/a", "")
	for _, test := range []struct {
		source, feed, flags string
		code                int
		want                string
	}{
		{r.bucket, "k", "", exit.Usage, `want one "*" in it`},
		{r.bucket, "k-*-*", "", exit.Usage, `want one "*" in it`},
		{r.bucket, "-*", "", exit.Usage, "must begin with a letter"},
		{r.bucket, "k-*", "--collections [", exit.Usage, "--collections"},
		{r.bucket + "/collections/zones", "k", "--collections z*", exit.Usage, "URL of a bucket"},
		{r.bucket + "/collections/zones", "k-*", "", exit.Usage, "'*'"},
		{r.bucket, "k-*", "--on-gone ignore --max-gone 101", exit.Usage, "--max-gone"},
		{strings.Replace(r.bucket, "//", "//ann:hunter2@", 1), "k-*", "", exit.Usage, "credentials"},
		{r.bucket + "-other", "k-*", "", exit.Error, "if the bucket does not exist"},
		{r.bucket, "k-*", "--max-record 1000", exit.Quarantine, "--max-quarantine"},
	} {
		args := append([]string{"bridge", "kinto", test.source, r.store + "#" + test.feed}, strings.Fields(test.flags)...)
		code, _, stderr := feedctl(t, "", args...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%q: exit status %d, want %d: %s", args[2:], code, test.code, stderr)
		}
	}
}
