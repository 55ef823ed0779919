package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
)

// A bridgeRig is a source, and a directory with the files of the commands.
type bridgeRig struct {
	t    *testing.T
	fake *couchtest.Fake
	url  string
	dir  string
}

func newBridgeRig(t *testing.T) *bridgeRig {
	fake := couchtest.NewFake(t)
	r := &bridgeRig{t: t, fake: fake, url: fake.NewDB(t), dir: t.TempDir()}
	for n := range 5 {
		fake.AddDoc(r.url, fmt.Sprint("doc ", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	return r
}

// env puts the indexes into the directory.
func (r *bridgeRig) env() { r.t.Setenv("XDG_CACHE_HOME", filepath.Join(r.dir, "cache")) }

// command runs "feedctl bridge ...", decodes its JSON output into v, and returns its standard
// error.
func (r *bridgeRig) command(want int, v any, args ...string) (stderr string) {
	r.t.Helper()
	r.env()
	args = append([]string{"bridge"}, append(args, "--store", "file:"+filepath.Join(r.dir, "store"), "--json")...)
	code, stdout, stderr := feedctl(r.t, "", args...)
	if code != want {
		r.t.Fatalf("feedctl %s: exit status %d, %s", strings.Join(args, " "), code, stderr)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			r.t.Fatalf("feedctl %s prints %s: %v", strings.Join(args, " "), stdout, err)
		}
	}
	return stderr
}

// TestBridgeStatistics: the output has the form of the protocol ("Replication Completed").
func TestBridgeStatistics(t *testing.T) {
	r := newBridgeRig(t)
	var result struct {
		OK      bool `json:"ok"`
		History []struct {
			DocsRead     *int64 `json:"docs_read"`
			DocsWritten  *int64 `json:"docs_written"`
			Failures     *int64 `json:"doc_write_failures"`
			Checked      *int64 `json:"missing_checked"`
			Found        *int64 `json:"missing_found"`
			StartLastSeq any    `json:"start_last_seq"`
			EndLastSeq   any    `json:"end_last_seq"`
			RecordedSeq  any    `json:"recorded_seq"`
			SessionID    string `json:"session_id"`
			StartTime    string `json:"start_time"`
			EndTime      string `json:"end_time"`
		} `json:"history"`
		Version       int            `json:"replication_id_version"`
		SessionID     string         `json:"session_id"`
		SourceLastSeq any            `json:"source_last_seq"`
		NoChanges     bool           `json:"no_changes"`
		Snapshot      *task.Snapshot `json:"snapshot"`
	}
	r.command(exit.OK, &result, "couchdb", r.url, "docs", "--snapshot")
	if !result.OK || len(result.History) != 1 || result.Version == 0 || result.NoChanges || result.Snapshot == nil || *result.Snapshot.Entities != 5 {
		t.Fatalf("%+v", result)
	}
	h := result.History[0]
	for name, n := range map[string]*int64{"docs_read": h.DocsRead, "docs_written": h.DocsWritten, "missing_checked": h.Checked, "missing_found": h.Found} {
		if n == nil || *n != 5 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if h.Failures == nil || *h.Failures != 0 || h.SessionID == "" || h.SessionID != result.SessionID || h.StartLastSeq != 0. ||
		h.EndLastSeq == nil || h.RecordedSeq != result.SourceLastSeq || !strings.HasSuffix(h.StartTime, " GMT") || !strings.HasSuffix(h.EndTime, " GMT") {
		t.Errorf("%+v", h)
	}
	r.command(exit.OK, &result, "couchdb", r.url, "docs")
	if !result.NoChanges {
		t.Errorf("%+v", result)
	}
}

// TestBridgeSnapshotAndFollow: the snapshot is written once. Later changes are in the feed,
// for consumers that began with the snapshot.
func TestBridgeSnapshotAndFollow(t *testing.T) {
	r := newBridgeRig(t)
	live := make(chan struct{})
	r.fake.Inject(1, couchtest.On("", "feed=continuous"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		close(live)
		healthy(w, q)
	})
	r.env()
	store := "file:" + filepath.Join(r.dir, "store")
	ctx, cancel := context.WithCancelCause(t.Context())
	var out, log bytes.Buffer
	var code int
	var bridge sync.WaitGroup
	bridge.Go(func() {
		args := []string{"bridge", "couchdb", r.url, "docs", "--follow", "--snapshot", "--store", store, "--json"}
		code = run(ctx, args, app.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	})
	<-live
	r.fake.AddDoc(r.url, "late", "{}")
	mustRun(t, "", "tail", store+"#docs", "--from", "beginning", "--limit", "6") // tail waits for the entities
	cancel(exit.ErrInterrupted)
	bridge.Wait()
	var result task.Replication
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || code != exit.Interrupted {
		t.Fatalf("exit status %d, %v: %s%s", code, err, &out, &log)
	}
	if h := result.History; len(h) != 2 || h[0].DocsWritten != 1 || h[1].DocsWritten != 5 || result.Snapshot == nil || *result.Snapshot.Entities != 5 {
		t.Errorf("%s", &out)
	}
	mustRun(t, "", "consume", store+"#docs", "--from", "snapshot", "--into", "jsonl:"+filepath.Join(r.dir, "out"))
	if n := lines(t, filepath.Join(r.dir, "out")); n != 6 {
		t.Errorf("%d entities in snapshot and feed, want 6", n)
	}
}

// TestBridgeSnapshotOfEmptyDatabase: following an empty database waits for changes.
func TestBridgeSnapshotOfEmptyDatabase(t *testing.T) {
	r := newBridgeRig(t)
	r.url = r.fake.NewDB(t)
	r.env()
	store := "file:" + filepath.Join(r.dir, "store")
	ctx, cancel := context.WithCancelCause(t.Context())
	live := make(chan struct{})
	r.fake.Inject(1, couchtest.On("", "feed=continuous"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		close(live)
		healthy(w, q)
	})
	var out, log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		args := []string{"bridge", "couchdb", r.url, "docs", "--follow", "--snapshot", "--store", store, "--json"}
		ended <- run(ctx, args, app.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	}()
	select {
	case <-live:
	case code := <-ended:
		t.Fatalf("exit status %d: %s", code, &log)
	}
	r.fake.AddDoc(r.url, "late", "{}")
	mustRun(t, "", "tail", store+"#docs", "--from", "beginning", "--limit", "1") // tail waits for the entities
	cancel(exit.ErrInterrupted)
	var result task.Replication
	if code := <-ended; code != exit.Interrupted {
		t.Errorf("exit status %d: %s", code, &log)
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Snapshot != nil || !strings.Contains(log.String(), "no snapshot") {
		t.Errorf("%v: %s%s", err, &out, &log)
	}
}

// TestBridgeText: the text output has the same numbers as the JSON output.
func TestBridgeText(t *testing.T) {
	r := newBridgeRig(t)
	r.env()
	got := mustRun(t, "", "bridge", "couchdb", r.url, "docs", "--store", "file:"+filepath.Join(r.dir, "store"))
	for _, want := range []string{"published 5 entities of ", "5 read, 5 written, 0 failed", "5 looked for in the feed, 5 missing there", "sequences  0 to "} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
}

func TestBridgeQuarantine(t *testing.T) {
	r := newBridgeRig(t)
	r.fake.AddDoc(r.url, "large", fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 2000)))
	r.command(exit.OK, nil, "couchdb", r.url, "docs", "--max-document", "1000")
	var thing bridge.Quarantined
	r.command(exit.OK, &thing, "quarantine", "docs")
	if thing.ID != "large" || !strings.Contains(thing.Reason, "1000 bytes") {
		t.Errorf("%+v", thing)
	}
	var report bridge.RetryReport
	r.command(exit.OK, &report, "quarantine", "docs", "--retry", r.url)
	if want := (bridge.RetryReport{Published: 1, Removed: 1}); report != want {
		t.Errorf("%+v, want %+v", report, want)
	}
}

func TestBridgeErrors(t *testing.T) {
	r := newBridgeRig(t)
	file := filepath.Join(r.dir, "credentials")
	if err := os.WriteFile(file, []byte("basic ann:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  int
		text  string
		flags []string
	}{
		{exit.Usage, "is not one of none, stub", []string{"--attachments", "zip"}},
		{exit.Usage, "not valid JSON", []string{"--selector", "{"}},
		{exit.Usage, "not NAME=VALUE", []string{"--query", "x"}},
		{exit.Usage, "cannot be combined", []string{"--filter", "a/b", "--doc-id", "c"}},
		{exit.Usage, "is not a size", []string{"--max-document", "-1"}},
		{exit.Usage, "is for --follow", []string{"--long-poll"}},
		{exit.NotFound, "no such file", []string{"--credentials-file", file + "x"}},
		{exit.Error, "status 401", []string{"--credentials-file", file}},
	} {
		r.fake.Require(couchtest.Credentials{User: "ann", Password: "another"})
		stderr := r.command(c.want, nil, append([]string{"couchdb", r.url, "docs"}, c.flags...)...)
		if !strings.Contains(stderr, c.text) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%q: %s", c.flags, stderr)
		}
	}
	r.fake.Require(couchtest.Credentials{User: "ann", Password: "hunter2"})
	r.command(exit.OK, nil, "couchdb", r.url, "docs", "--credentials-file", file)
	r.command(exit.NotFound, nil, "couchdb", r.url+"x", "docs", "--credentials-file", file)
	r.command(exit.NotFound, nil, "quarantine", "none")
	r.command(exit.Usage, nil, "couchdb", strings.Replace(r.url, "://", "://ann:hunter2@", 1), "docs")
}

// TestBridgeUnreachable: bridging once from an unreachable server fails immediately.
func TestBridgeUnreachable(t *testing.T) {
	r := newBridgeRig(t)
	r.fake.Close()
	for _, url := range []string{r.url, "http://no-such-host.invalid/db"} {
		stderr := r.command(exit.Error, nil, "couchdb", url, "docs")
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		if !strings.Contains(stderr, host) || !strings.Contains(stderr, "--retries") || strings.Contains(stderr, "WARN") {
			t.Errorf("standard error is %s", stderr)
		}
	}
	stderr := r.command(exit.Error, nil, "couchdb", r.url, "docs", "--retries", "2")
	if strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "gives_up") || !strings.Contains(stderr, "no progress in 2 attempts") {
		t.Errorf("with --retries, standard error is %s", stderr)
	}
}

// TestBridgePermanentErrors: errors that waiting does not fix are reported even with --follow.
func TestBridgePermanentErrors(t *testing.T) {
	r := newBridgeRig(t)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	for url, says := range map[string]string{
		secure.URL + "/db":                           "SSL_CERT_FILE",
		strings.Replace(r.url, "http:", "https:", 1): "http:// in the URL",
	} {
		for _, command := range [][]string{{"couchdb", url, "docs", "--follow", "--retries", "2"}, {"quarantine", "docs", "--retry", url}} {
			if command[0] == "quarantine" {
				r.command(exit.OK, nil, "couchdb", r.url, "docs", "--max-document", "3", "--max-quarantine", "100%")
			}
			stderr := r.command(exit.Error, nil, command...)
			if !strings.Contains(stderr, says) || strings.Contains(stderr, "WARN") {
				t.Errorf("%q: standard error is %s", command, stderr)
			}
		}
	}
}
