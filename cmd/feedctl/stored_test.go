package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

const zones = `{"name":"Europe/Zürich","offset":1}
{"name":"Asia/Kolkata","offset":5.5}
{"name":"UTC","offset":0}
`

// eachStore runs a test on a directory and on a bucket.
func eachStore(t *testing.T, test func(t *testing.T, store string)) {
	t.Run("file", func(t *testing.T) { test(t, "file:"+filepath.Join(t.TempDir(), "store")) })
	t.Run("s3", func(t *testing.T) { test(t, s3test.Start(t).URL("some/prefix")) })
}

// mustRun runs a command line that must succeed, and returns its output.
func mustRun(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, stdout, stderr := feedctl(t, stdin, args...)
	if code != exit.OK {
		t.Fatalf("feedctl %s: exit status %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// lines counts the lines of a file.
func lines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

func TestConsumeStore(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		dir := t.TempDir()
		name := func(n string) string { return store + "#" + n }
		out := filepath.Join(dir, "zones.jsonl")
		into := "jsonl:" + out
		mustRun(t, zones, "publish", name("zones"), "--key", "/name", "--max-page-entities", "2")
		mustRun(t, "", "consume", name("zones"), "--into", into)
		var result task.Consumed
		mustRun(t, zones, "publish", name("zones"), "--key", "/name")
		if err := json.Unmarshal([]byte(mustRun(t, "", "consume", name("zones"), "--into", into, "--json")), &result); err != nil {
			t.Fatal(err)
		}
		if lines(t, out) != 6 || result.Entities != 3 || result.Gaps != 0 {
			t.Errorf("%d lines, %+v", lines(t, out), result)
		}
		// The name has the location of the store, but not how to access it.
		u, err := url.Parse(store)
		if err != nil {
			t.Fatal(err)
		}
		want := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path + u.Opaque, Fragment: "zones"}).String()
		if u.Scheme == "file" {
			want = "file://" + strings.TrimPrefix(store, "file:") + "#zones"
		}
		if result.Position.Feed != want || result.URL != want {
			t.Errorf("feed is called %q and %q, want %q", result.Position.Feed, result.URL, want)
		}
		// The same with --store, and with other commands.
		mustRun(t, "", "consume", "zones", "--store", store, "--into", into)
		if lines(t, out) != 6 {
			t.Errorf("%d lines", lines(t, out))
		}
		if got := mustRun(t, "", "tail", name("zones"), "--from", "beginning", "--follow=false"); strings.Count(got, "\n") != 6 {
			t.Errorf("tail: %s", got)
		}
		if got := mustRun(t, "", "inspect", name("zones")); !strings.Contains(got, "6 entities") {
			t.Errorf("inspect: %s", got)
		}
		mustRun(t, "", "verify", name("zones"))
		// Snapshots.
		mustRun(t, "", "snapshot", "from-feed", name("zones"), "--name", "others")
		mustRun(t, "", "snapshot", "from-feed", name("zones"))
		for _, from := range []string{"snapshot", "snapshot:others", "snapshot:" + name("others")} {
			snapped := filepath.Join(dir, "snapped.jsonl")
			mustRun(t, "", "consume", name("zones"), "--into", "jsonl:"+snapped, "--from", from)
			if lines(t, snapped) != 3 {
				t.Errorf("from %s: %d lines", from, lines(t, snapped))
			}
			for _, file := range []string{snapped, snapped + ".position"} {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := mustRun(t, "", "snapshot", "list", name("others")); strings.Count(got, "\n") != 2 {
			t.Errorf("list: %s", got)
		}
		mustRun(t, "", "verify", "--index", name("zones"))
		mustRun(t, "", "prune", name("zones"), "--keep-pages", "1")
		// Replacing the feed with another one is a gap.
		mustRun(t, zones, "publish", name("zones2"), "--key", "/name")
		if code, _, stderr := feedctl(t, "", "consume", name("zones2"), "--into", into); code != exit.Gap {
			t.Errorf("exit status %d\n%s", code, stderr)
		}
	})
}

// TestMovedStore: a sink continues with a feed that has moved.
func TestMovedStore(t *testing.T) {
	dir := t.TempDir()
	into := "jsonl:" + filepath.Join(dir, "out.jsonl")
	mustRun(t, zones, "publish", "file:"+filepath.Join(dir, "a")+"#zones", "--key", "/name")
	mustRun(t, "", "consume", "file:"+filepath.Join(dir, "a")+"#zones", "--into", into)
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	mustRun(t, zones, "publish", "file:"+filepath.Join(dir, "b")+"#zones", "--key", "/name")
	code, _, stderr := feedctl(t, "", "consume", "file:"+filepath.Join(dir, "b")+"#zones", "--into", into)
	if code != exit.OK || !strings.Contains(stderr, "at another URL") || lines(t, filepath.Join(dir, "out.jsonl")) != 6 {
		t.Errorf("exit status %d, %d lines\n%s", code, lines(t, filepath.Join(dir, "out.jsonl")), stderr)
	}
}

// TestFollowStore: later entities are found, even in a store without notifications.
func TestFollowStore(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		in, out := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			args := []string{"tail", store + "#zones", "--from", "beginning", "--limit", "6"}
			ended <- run(t.Context(), args, app.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard})
			out.Close()
		}()
		scan := bufio.NewScanner(in)
		for n := range 6 {
			if !scan.Scan() {
				t.Fatalf("ended after %d entities", n)
			}
			if n == 2 { // all entities
				mustRun(t, zones, "publish", store+"#zones", "--key", "/name", "--max-page-entities", "1")
			}
		}
		if code := <-ended; code != exit.OK || scan.Scan() {
			t.Errorf("exit status %d", code)
		}
	})
}

func TestInvalidStores(t *testing.T) {
	file := "file:" + t.TempDir()
	mustRun(t, "", "init", file)
	server := s3test.Start(t)
	bucket, err := url.Parse(server.URL("p"))
	if err != nil {
		t.Fatal(err)
	}
	other := *bucket
	other.Host = "no-such-bucket"
	for _, test := range []struct {
		arg  string
		code int
		want string
	}{
		{file, exit.Usage, "name a feed or snapshot in it"},
		{file + "#", exit.Usage, "names nothing"},
		{file + "#a/b", exit.Usage, "invalid name"},
		{file + "#a#b", exit.Usage, "more than one"},
		{file + "#none", exit.NotFound, strings.TrimPrefix(file, "file:") + "/feeds/none: feed \"none\": feed has no pages"},
		{"tape:0#zones", exit.Usage, "or be STORE#NAME"},
		{"http://h/feeds/a#zones", exit.Usage, "has a fragment"},
		{"s3://#zones", exit.Usage, "without bucket"},
		{"s3://b/p?regon=x#zones", exit.Usage, `unknown parameter "regon"`},
		{"s3://b/p?endpoint=localhost:9#zones", exit.Usage, "want http://HOST:PORT"},
		{"s3://ann:secret@b/p#zones", exit.Usage, "with credentials"},
		{bucket.String() + "#none", exit.NotFound, "/feeds/none: feed \"none\": feed has no pages"},
		{other.String() + "#zones", exit.NotFound, "the bucket does not exist"},
	} {
		code, _, stderr := feedctl(t, "", "consume", test.arg, "--into", "jsonl:"+filepath.Join(t.TempDir(), "x"))
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "store.invalid") || strings.Contains(stderr, "secret") {
			t.Errorf("consume %s: exit status %d, want %d: %s", test.arg, code, test.code, stderr)
		}
	}
	if code, _, stderr := feedctl(t, "", "consume", file+"#a", "--into", "-", "--from", "snapshot:file:other#a"); code != exit.Usage || !strings.Contains(stderr, "not in the feed's store") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	code, _, stderr := feedctl(t, "", "consume", bucket.String()+"#zones", "--into", "-")
	if code != exit.Error || !strings.Contains(stderr, "correct the credentials") || !strings.Contains(stderr, "Try: \"feedctl doctor STORE\"") {
		t.Errorf("wrong credentials: exit status %d: %s", code, stderr)
	}
}

// turnLook is the time after which a producer checks whether others wait for their turn to write to the
// feed. It does so once in a publish of one page.
const turnLook = 100 * time.Millisecond

func TestVerbose(t *testing.T) {
	store := s3test.Start(t).URL("v")
	_, _, stderr := feedctl(t, zones, "publish", store+"#zones", "-v")
	if !strings.Contains(stderr, "feedctl: took ") || !strings.Contains(stderr, " requests to the store: ") || !strings.Contains(stderr, "PutObject") {
		t.Errorf("stderr %q", stderr)
	}
	_, _, stderr = feedctl(t, zones, "publish", store+"#zones", "-v")
	var seconds string
	var requests, gets int
	if _, err := fmt.Sscanf(stderr[strings.LastIndex(stderr, "feedctl: took"):], "feedctl: took %s %d requests to the store: GetObject %d, PutObject 1\n", &seconds, &requests, &gets); err != nil {
		t.Fatalf("%v: %q", err, stderr)
	}
	took, err := time.ParseDuration(strings.TrimSuffix(seconds, ","))
	if err != nil || requests != gets+1 || gets != 16 && (gets != 17 || took < turnLook) {
		t.Errorf("a publish takes %q, want 17 requests, or 18 if it takes longer than %v", stderr, turnLook)
	}
	code, _, stderr := feedctl(t, "", "tail", store+"#none", "--from", "beginning", "--follow=false", "--verbose", "--json")
	all := strings.Split(strings.TrimSpace(stderr), "\n")
	var counted app.RequestsJSON
	var failure app.ErrorJSON
	if len(all) != 2 || json.Unmarshal([]byte(all[0]), &counted) != nil || json.Unmarshal([]byte(all[1]), &failure) != nil ||
		counted.Requests["GetObject"] == 0 || counted.Seconds <= 0 || failure.ExitStatus != code {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
	for _, store := range []string{"file:" + t.TempDir() + "/store", pgtest.Start(t).URL("verbose")} {
		for _, line := range []string{
			"publish zones", "list", "inspect zones", "verify zones", "doctor " + store, "prune zones --keep-pages 1", "repair zones",
			"consume zones --into -", "tail zones --from beginning --follow=false", "snapshot from-feed zones", "copy " + store + " memory:",
		} {
			_, _, stderr := feedctl(t, zones, append(strings.Fields(line), "-v", "--store", store)...)
			if !regexp.MustCompile(`feedctl: took .*, [0-9,]+ requests? to the store: .*(get|stat|list) [0-9]`).MatchString(stderr) {
				t.Errorf("feedctl %s --store %s: stderr %q", line, store, stderr)
			}
		}
	}
	if _, _, stderr := feedctl(t, "", "version", "-v"); !strings.HasPrefix(stderr, "feedctl: took ") || strings.Contains(stderr, "requests") {
		t.Errorf("without a store: %q", stderr)
	}
}

// TestVerboseHTTP counts the requests of commands to a server.
func TestVerboseHTTP(t *testing.T) {
	store := "file:" + t.TempDir() + "/store"
	mustRun(t, zones, "publish", store+"#zones")
	web := serveStore(t, store)
	for _, line := range []string{
		"consume " + web + "/feeds/zones --into -",
		"tail " + web + "/feeds/zones --from beginning --follow=false",
		"inspect " + web + "/feeds/zones",
		"verify " + web + "/feeds/zones",
		"doctor " + web + "/feeds/zones --wait 1s",
		"publish zones --to " + web,
	} {
		_, _, stderr := feedctl(t, zones, append(strings.Fields(line), "-v")...)
		if !regexp.MustCompile(`feedctl: took .*, [0-9,]+ requests? by HTTP: .*(GET|POST) [0-9]`).MatchString(stderr) {
			t.Errorf("feedctl %s: stderr %q", line, stderr)
		}
	}
}

func TestDoctor(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		var report doctorJSON
		mustRun(t, "", "init", store)
		out := mustRun(t, "", "doctor", store, "--json")
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.Problems != 0 || len(report.Findings) < 8 {
			t.Errorf("%v: %s", err, out)
		}
		if got := mustRun(t, "", "doctor", "--store", store); !regexp.MustCompile(`\nOK +conditions`).MatchString(got) { // the column is wider with a warning
			t.Errorf("table:\n%s", got)
		}
	})
	code, out, stderr := feedctl(t, "", "doctor", "http://127.0.0.1:1/feeds/a", "--json")
	var report doctorJSON
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exit.Error || report.Problems != 1 || report.Findings[0].Level != doctor.Problem {
		t.Errorf("exit status %d, %v: %s%s", code, err, out, stderr)
	}
	for _, args := range [][]string{{"doctor", "zones"}, {"doctor", "https://ann:secret@h/feeds/a"}, {"doctor", "http://h/", "--wait", "1ms"}, {"doctor", "s3://b/p?x=y"}} {
		if code, _, stderr := feedctl(t, "", args...); code != exit.Usage || strings.Contains(stderr, "secret") {
			t.Errorf("%v: exit status %d: %s", args, code, stderr)
		}
	}
}

// TestStaticSnapshot reads snapshots in a bucket by plain HTTP, without a feedctl server,
// with presigned and with public URLs.
func TestStaticSnapshot(t *testing.T) {
	store := s3test.Start(t).URL("static")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name", "--max-page-entities", "2")
	var made task.Snapshot
	snap := func(args ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(mustRun(t, zones, append(args, "--json")...)), &made); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{
		{"snapshot", "create", store + "#created", "--key", "/name", "--presign", "1h"},
		{"snapshot", "from-feed", store + "#zones", "--presign", "1h"},
	} {
		snap(command...)
		index := readStatic(t, made.URL)
		if len(index.Pages) == 0 || index.ID != made.ID {
			t.Errorf("index %+v", index)
		}
		if got := readByConsumer(t, made.URL); len(got) != 3 {
			t.Errorf("%v: consumer reads %v", command, got)
		}
		mustRun(t, "", "verify", made.URL)
	}
	// The snapshot comes from the bucket and the feed from the store, whose location the
	// index need not have.
	out := filepath.Join(t.TempDir(), "out.jsonl")
	mustRun(t, "", "consume", store+"#zones", "--into", "jsonl:"+out, "--from", "snapshot")
	if lines(t, out) != 3 {
		t.Errorf("%d lines", lines(t, out))
	}
	public, feeds := publicBucket(t, store)
	snap("snapshot", "from-feed", store+"#zones", "--public-url", public+"/data")
	if want := public + "/data/snapshots/zones/index/" + made.ID; made.URL != want || made.Feed.URL != public+"/data/feeds/zones" {
		t.Errorf("index at %s, of %+v", made.URL, made.Feed)
	}
	for _, ref := range readStatic(t, made.URL).Pages {
		if !strings.HasPrefix(ref, public+"/data/snapshots/zones/pages/") {
			t.Errorf("page at %s", ref)
		}
	}
	if got := readByConsumer(t, made.URL); len(got) != 3 {
		t.Errorf("consumer reads %v", got)
	}
	// A consumer reads the snapshot in the public bucket, and continues with the feed on another
	// server, which the index does not name. It repeats no entities.
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	out = filepath.Join(t.TempDir(), "both.jsonl")
	mustRun(t, "", "consume", feeds+"/feeds/zones", "--into", "jsonl:"+out, "--from", "snapshot:"+made.URL)
	if lines(t, out) != 6 {
		t.Errorf("%d lines", lines(t, out))
	}
	for _, args := range [][]string{
		{"snapshot", "create", "memory:#zones", "--presign", "1h"},
		{"snapshot", "create", store + "#zones", "--presign", "1h", "--public-url", "https://h"},
		{"snapshot", "create", store + "#zones", "--presign", "-1h"},
		{"snapshot", "create", store + "#zones", "--public-url", "ftp://h"},
	} {
		if code, _, stderr := feedctl(t, zones, args...); code != exit.Usage {
			t.Errorf("%v: exit status %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := feedctl(t, zones, "snapshot", "create", store+"#long", "--presign", "169h"); code != exit.Error || !strings.Contains(stderr, "168h") {
		t.Errorf("too long: exit status %d: %s", code, stderr)
	}
	if code, _, _ := feedctl(t, "", "inspect", "--index", store+"#long"); code != exit.NotFound {
		t.Errorf("exit status %d: something was written", code)
	}
}

// publicBucket returns the URL of a proxy that serves only the objects of a store, publicly
// below /data, and the URL of a server of its feeds.
func publicBucket(t *testing.T, rawURL string) (public, feeds string) {
	t.Helper()
	store, err := stores.Open(t.Context(), rawURL, stores.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		presigner, _ := storage.As[storage.Presigner](store)
		ref, err := presigner.Presign(r.In.Context(), strings.TrimPrefix(r.In.URL.Path, "/data/"), time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		if r.Out.URL, err = url.Parse(ref); err != nil {
			t.Error(err)
		}
		r.Out.Host = ""
	}})
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		bucket.Close()
		web.Close()
		if err := errors.Join(handler.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return bucket.URL, web.URL
}

// readStatic reads an index and its pages as any client does, and checks the headers of a
// static host.
func readStatic(t *testing.T, index string) *snapshot.Index {
	t.Helper()
	get := func(url string) (*http.Response, []byte) {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("get %s: %s, %v: %s", url, response.Status, err, body)
		}
		if got := response.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("get %s: Cache-Control: %q", url, got)
		}
		return response, body
	}
	response, body := get(index)
	if got := response.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("index has Content-Type %q", got)
	}
	x, err := snapshot.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range x.Pages {
		response, body := get(ref)
		boundary, err := page.Boundary(response.Header.Get("Content-Type"))
		if err != nil || response.Header.Get("Last-Modified") == "" {
			t.Fatalf("page has %v: %v", response.Header, err)
		}
		if !strings.HasSuffix(string(body), "--"+boundary+"--\r\n") {
			t.Errorf("page ends in %q", body[max(0, len(body)-100):])
		}
	}
	return x
}

func readByConsumer(t *testing.T, index string) []string {
	t.Helper()
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for e, err := range client.Snapshot(t.Context(), index, feed.SnapshotPosition{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key())
	}
	return keys
}
