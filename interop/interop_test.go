package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

// perPage is the number of entities on a page, on both sides.
const perPage = 3

// A line is an entity as the Java programs read and print it.
type line struct {
	ContentID       string `json:"contentId,omitempty"`
	Operation       string `json:"operation,omitempty"`
	ContentType     string `json:"contentType"`
	LastModified    string `json:"lastModified"`
	ContentLocation string `json:"contentLocation,omitempty"`
	Body            string `json:"body"`
	Length          int    `json:"length"`
	SHA256          string `json:"sha256"`
}

// entities returns entities of each kind that a codec may handle wrongly.
func entities() []*feed.Entity {
	bodies := []string{
		`{"name":"Zürich"}`,
		"",
		"ends with a line break\r\n",
		"ends with several\n\r\n\r\n",
		"\r\n\r\nbegins with some",
		"--\r\n--not a delimiter\r\n\r\n--",
		"Content-Length: 3\r\n\r\nlooks like a header",
		"\x00\xff\xfe\r\x00\n binary",
		strings.Repeat("0123456789abcdef", 20_000),
		"bare\rcarriage\rreturns\r",
	}
	start := time.Date(2024, 2, 29, 23, 59, 58, 0, time.UTC)
	list := make([]*feed.Entity, len(bodies))
	for i, body := range bodies {
		list[i] = &feed.Entity{
			ContentID:       fmt.Sprintf("<%d-A@interop>", i),
			Operation:       []feed.Operation{feed.Put, feed.Patch, feed.Delete}[i%3],
			LastModified:    start.Add(time.Duration(i/4) * time.Second), // several entities share a second
			ContentType:     []string{"application/json", "text/plain; charset=utf-8"}[i%2],
			ContentLocation: feed.EncodeKey(fmt.Sprintf("key/ü %d", i)),
			Body:            []byte(body),
		}
	}
	return list
}

// lines returns the entities as the Java reader prints them.
func lines(list []*feed.Entity) []line {
	out := make([]line, len(list))
	for i, e := range list {
		sum := sha256.Sum256(e.Body)
		out[i] = line{
			ContentID:       e.ContentID,
			ContentType:     e.ContentType,
			LastModified:    feed.FormatTime(e.LastModified),
			ContentLocation: e.ContentLocation,
			Length:          len(e.Body),
			SHA256:          hex.EncodeToString(sum[:]),
		}
		if e.Operation != "" {
			out[i].Operation = e.Operation.HeaderValue()
		}
	}
	return out
}

// classPath builds the Java programs.
func classPath(t *testing.T) string {
	t.Helper()
	build := exec.Command("../scripts/build-interop")
	var stderr bytes.Buffer
	build.Stderr = &stderr
	out, err := build.Output()
	if err != nil {
		t.Fatalf("build the Java programs: %v\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// java returns a command that runs one of the Java programs for at most ten minutes.
func java(t *testing.T, classPath string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
	t.Cleanup(cancel)
	quick := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classPath} // options for a quick start
	return exec.CommandContext(ctx, "java", append(quick, args...)...)
}

// javaReader runs the Java reader and returns its output.
func javaReader(t *testing.T, classPath string, args ...string) []line {
	t.Helper()
	out, err := runReader(t, classPath, args...)
	if err != nil {
		t.Fatalf("Java reader %v: %v", args, err)
	}
	list := []line{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l line
		err := decoder.Decode(&l)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("Java reader %v printed %q: %v", args, out, err)
		}
		list = append(list, l)
	}
}

// runReader runs the Java reader. The error includes its messages.
func runReader(t *testing.T, classPath string, args ...string) ([]byte, error) {
	t.Helper()
	reader := java(t, classPath, append([]string{"interop.Reader"}, args...)...)
	var stderr bytes.Buffer
	reader.Stderr = &stderr
	out, err := reader.Output()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return out, err
}

// javaProducer starts a Java server with the entities as a feed and as a snapshot, and
// returns its URL.
func javaProducer(t *testing.T, classPath string, list []*feed.Entity) string {
	t.Helper()
	program := java(t, classPath, "interop.Producer", strconv.Itoa(perPage))
	stdin, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	program.Stderr = &stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := program.Wait(); err != nil {
			t.Errorf("Java producer: %v\n%s", err, stderr.String())
		}
	})
	encoder := json.NewEncoder(stdin)
	for i, l := range lines(list) {
		l.Body = base64.StdEncoding.EncodeToString(list[i].Body)
		if err := encoder.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("Java producer printed no URL: %v", err)
	}
	return strings.TrimSpace(url)
}

// published publishes the entities, serves them and a snapshot of them with feedctl, and
// returns the server's URL and the entities as published.
func published(t *testing.T) (string, []*feed.Entity) {
	t.Helper()
	store := memory.New()
	list := entities()
	clock := list[0].LastModified
	f, err := producer.Open(t.Context(), store, "interop", producer.Config{
		MaxPageEntities: perPage,
		MaxClockSkew:    24 * 365 * 100 * time.Hour,
		Now:             func() time.Time { return clock },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		clock = e.LastModified
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshots.Write(t.Context(), store, "interop", func(yield func(*feed.Entity, error) bool) {
		for _, e := range withoutEvents(list) {
			if !yield(e, nil) {
				return
			}
		}
	}, snapshots.Config{}); err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		if err := handler.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.URL, list
}

// withoutEvents returns the entities as they are in a snapshot.
func withoutEvents(list []*feed.Entity) []*feed.Entity {
	out := make([]*feed.Entity, len(list))
	for i, e := range list {
		c := *e
		c.ContentID, c.Operation = "", ""
		out[i] = &c
	}
	return out
}

func TestJavaReadsFeed(t *testing.T) {
	programs := classPath(t)
	url, list := published(t)
	entry := url + layout.FeedPath("interop")
	want := lines(list)
	if diff := cmp.Diff(want, javaReader(t, programs, "feed", entry)); diff != "" {
		t.Errorf("from the beginning (-want +got):\n%s", diff)
	}
	for _, i := range []int{4, len(want) - 1} { // each read starts a JVM, so only a sample is tested
		after := want[i]
		got := javaReader(t, programs, "feed", entry, after.LastModified, after.ContentID)
		if diff := cmp.Diff(want[i+1:], got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", after.ContentID, diff)
		}
	}
	// The reader requires a page that is strictly older than the position, even if the entity exists.
	if _, err := runReader(t, programs, "feed", entry, want[0].LastModified, want[0].ContentID); err == nil || !strings.Contains(err.Error(), "strictly older") {
		t.Errorf("after the first entity: %v", err)
	}
}

func TestJavaReadsSnapshot(t *testing.T) {
	programs := classPath(t)
	url, list := published(t)
	got := javaReader(t, programs, "snapshot", url+layout.SnapshotPath("interop"))
	if diff := cmp.Diff(lines(withoutEvents(list)), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFeedctlReadsJavaFeed(t *testing.T) {
	list := entities()
	entry := javaProducer(t, classPath(t), list) + "/feed"
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	read := func(from consumer.Start) ([]*feed.Entity, []feed.Position) {
		var got []*feed.Entity
		var positions []feed.Position
		for e, err := range client.Entities(t.Context(), entry, from) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, kept(t, &e.Entity))
			positions = append(positions, e.Position())
		}
		return got, positions
	}
	got, positions := read(consumer.Beginning())
	if diff := cmp.Diff(lines(list), lines(got)); diff != "" {
		t.Fatalf("from the beginning (-want +got):\n%s", diff)
	}
	for i, position := range positions {
		got, _ := read(consumer.After(position))
		if diff := cmp.Diff(lines(list[i+1:]), lines(got)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", position.ContentID, diff)
		}
	}
	report, err := verify.Feed(t.Context(), entry, verify.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Errorf("verify: %v", err)
	}
}

func TestFeedctlReadsJavaSnapshot(t *testing.T) {
	list := entities()
	index := javaProducer(t, classPath(t), list) + "/snapshot"
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got := []*feed.Entity{}
	for e, err := range client.Snapshot(t.Context(), index, feed.SnapshotPosition{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, kept(t, &e.Entity))
	}
	if diff := cmp.Diff(lines(withoutEvents(list)), lines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	report, err := verify.Snapshot(t.Context(), index, verify.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		if v.Rule != verify.PageHeader { // the pages have no Last-Modified
			t.Errorf("verify: %v", &v)
		}
	}
	if len(report.Violations) != report.Pages {
		t.Errorf("%d violations on %d pages, want one each", len(report.Violations), report.Pages)
	}
}

// kept returns a copy of an entity that stays valid when the next one is read.
func kept(t *testing.T, e *feed.Entity) *feed.Entity {
	t.Helper()
	c := *e
	c.Body, c.Stream, c.Header = bytes.Clone(e.Body), nil, nil
	if e.Stream != nil {
		var err error
		if c.Body, err = io.ReadAll(e.Stream); err != nil {
			t.Fatal(err)
		}
	}
	return &c
}
