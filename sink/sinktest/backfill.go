package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
)

// backfiller opens a sink, and skips the test if the sink cannot be filled newest first.
func (s suite) backfiller(t *testing.T, dir string) consumer.Backfiller {
	t.Helper()
	k, ok := s.open(t, dir).(consumer.Backfiller)
	if !ok {
		t.Skip("the sink cannot be filled newest first")
	}
	return k
}

func beginBackfill(t *testing.T, k consumer.Backfiller) consumer.Backfill {
	t.Helper()
	b, err := k.BeginBackfill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tailAt returns a position with an incomplete tail.
func tailAt(n int) feed.Position {
	p := at(n)
	p.Tail = &feed.TailPosition{
		LastModified: stamp(0), ContentID: contentID(0), Page: "https://example.com/feeds/a/pages/0", Prev: strings.Repeat("a5", 32),
		Snapshot: snapshotPosition().Snapshot, Held: 2, Holds: 3,
	}
	return p
}

func checkRecall(t *testing.T, b consumer.Backfill, want map[string]consumer.Recall) {
	t.Helper()
	var keys []string
	for key := range want {
		keys = append(keys, key)
	}
	recalls, err := b.Recall(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]consumer.Recall{}
	for i, key := range keys {
		got[key] = recalls[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("recalled (-want +got):\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recall tests what Recall returns for keys: in a batch, after its commit, after a rollback, after
// the sink was opened again, and once the tail is complete.
func (s suite) recall(t *testing.T) {
	dir := t.TempDir()
	k := s.backfiller(t, dir)
	checkPosition(t, k, feed.Position{})
	const odd = "ü/\x00\xff"
	nothing := map[string]consumer.Recall{"put": {}, "deleted": {}, "both": {}, "held": {}, odd: {}}
	all := map[string]consumer.Recall{"put": {Known: true}, "deleted": {Known: true}, "both": {Known: true}, "held": {Held: 2}, odd: {Known: true, Held: 1}, "none": {}}
	change := func(b consumer.Backfill) {
		t.Helper()
		apply(t, b, put(1, "put", `1`), put(2, "both", `2`), entity(3, feed.Delete, "both", "text/plain", ""), entity(4, feed.Delete, "deleted", "text/plain", ""))
		for _, key := range []string{"both", "deleted", odd} {
			must(t, b.Bury(t.Context(), key))
		}
		must(t, b.Bury(t.Context(), "deleted"))
		must(t, b.Hold(t.Context(), "held", -1, []byte("one")))
		must(t, b.Hold(t.Context(), "held", 2, []byte("two")))
		must(t, b.Hold(t.Context(), odd, 3, []byte{0, 255}))
	}
	b := beginBackfill(t, k)
	checkRecall(t, b, nothing)
	change(b)
	checkRecall(t, b, all)
	rollback(t, b)

	b = beginBackfill(t, k)
	checkRecall(t, b, nothing)
	change(b)
	commit(t, b, tailAt(4))
	if _, err := b.Recall(t.Context(), []string{"put"}); err == nil {
		t.Error("keys were recalled after the commit")
	}
	checkPosition(t, k, tailAt(4))
	b = beginBackfill(t, k)
	checkRecall(t, b, all)
	must(t, b.Release(t.Context(), "held", nil))
	checkRecall(t, b, map[string]consumer.Recall{"held": {}, odd: all[odd]})
	rollback(t, b)
	closeSink(t, k)

	k = s.backfiller(t, dir)
	checkPosition(t, k, tailAt(4))
	b = beginBackfill(t, k)
	checkRecall(t, b, all)
	must(t, b.Release(t.Context(), odd, nil))
	commit(t, b, tailAt(4))
	b = beginBackfill(t, k)
	checkRecall(t, b, map[string]consumer.Recall{"held": {Held: 2}, odd: {Known: true}})
	must(t, b.Bury(t.Context(), "none"))
	commit(t, b, at(5))
	b = beginBackfill(t, k)
	checkRecall(t, b, map[string]consumer.Recall{"put": {Known: true}, "deleted": {}, "both": {}, "held": {}, odd: {}, "none": {}})
	change(b)
	commit(t, b, at(6)) // notes of the batch are removed, too
	b = beginBackfill(t, k)
	checkRecall(t, b, map[string]consumer.Recall{"put": {Known: true}, "deleted": {}, "both": {}, "held": {}, odd: {}})
	rollback(t, b)
	closeSink(t, k)
	one := put(1, "put", `1`)
	s.check(t, dir, record(one, one.Body))
}

// held tests that held patches are released in order, whether one batch held them or several.
func (s suite) held(t *testing.T) {
	for _, commits := range []bool{false, true} {
		t.Run(fmt.Sprint("commits=", commits), func(t *testing.T) {
			dir := t.TempDir()
			k := s.backfiller(t, dir)
			b := beginBackfill(t, k)
			large := bytes.Repeat([]byte("x"), 1<<20)
			for i, n := range []int64{-1, 1, -2, 3, -4} {
				held := fmt.Append(nil, n)
				if n == -2 {
					held = large
				}
				must(t, b.Hold(t.Context(), "a", n, held))
				if commits && i%2 == 0 {
					commit(t, b, tailAt(i))
					b = beginBackfill(t, k)
				}
			}
			apply(t, b, put(1, "a", `{"log":[0]}`))
			var order []string
			must(t, b.Release(t.Context(), "a", func(held []byte) error {
				if bytes.Equal(held, large) {
					held = []byte("-2")
				}
				order = append(order, string(held))
				return b.Apply(t.Context(), entity(2, feed.Patch, "a", patch.JSON, fmt.Sprintf(`[{"op":"add","path":"/log/-","value":%s}]`, held)))
			}))
			if want := []string{"-4", "-2", "-1", "1", "3"}; !slices.Equal(order, want) {
				t.Errorf("released in the order %v, want %v", order, want)
			}
			checkRecall(t, b, map[string]consumer.Recall{"a": {Known: true}})
			commit(t, b, at(2))
			closeSink(t, k)
			e := put(1, "a", "")
			e.ContentID, e.LastModified = contentID(2), stamp(2)
			s.check(t, dir, record(e, []byte(`{"log":[0,-4,-2,-1,1,3]}`)))
		})
	}
}

// A modelFeed serves the entities of a generator, several on each page. Its last two pages are
// visible only after some requests.
type modelFeed struct {
	pages    []string // bodies
	last     []string // Last-Modified
	mu       sync.Mutex
	hidden   int // pages
	requests int
}

const (
	modelEntities = 240
	modelKeys     = 60
	modelURL      = "http://feed.test/feed"
)

func modelGenerator() *generator {
	g := newGenerator()
	g.keys = modelKeys
	return g
}

func newModelFeed() (*modelFeed, error) {
	f := &modelFeed{hidden: 2}
	g := modelGenerator()
	for g.n < modelEntities {
		var page strings.Builder
		var last string
		for range 1 + g.n%13 {
			e := g.next()
			body := e.Body
			if e.Stream != nil {
				var err error
				if body, err = io.ReadAll(e.Stream); err != nil {
					return nil, err
				}
			}
			page.WriteString("--b\r\n")
			for _, field := range e.AppendHeader(nil) {
				fmt.Fprintf(&page, "%s: %s\r\n", field.Name, field.Value)
			}
			page.WriteString("\r\n" + string(body) + "\r\n")
			last = feed.FormatTime(e.LastModified)
		}
		f.pages, f.last = append(f.pages, page.String()+"--b--\r\n"), append(f.last, last)
	}
	return f, nil
}

// RoundTrip implements [http.RoundTripper].
func (f *modelFeed) RoundTrip(r *http.Request) (*http.Response, error) {
	link := func(n int, rel string) string { return fmt.Sprintf(`<http://feed.test/%d>; rel="%s"`, n, rel) }
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests++; f.requests == 8 {
		f.hidden = 0
	}
	newest := len(f.pages) - f.hidden
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		n = newest
	}
	links := []string{link(n, "self")}
	if n > 1 {
		links = append(links, link(n-1, "prev"))
	}
	if n < newest {
		links = append(links, link(n+1, "next"))
	}
	header := http.Header{"Content-Type": {`multipart/mixed; boundary="b"`}, "Link": links, "Last-Modified": {f.last[n-1]}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Request: r, Body: io.NopCloser(strings.NewReader(f.pages[n-1])), ContentLength: -1}, nil
}

// consumeNewestFirst consumes the feed of the model with small batches.
func consumeNewestFirst(ctx context.Context, k consumer.Sink) error {
	pages, err := newModelFeed()
	if err != nil {
		return err
	}
	client, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: pages}, PollInterval: 1, MaxWhole: 1 << 10})
	if err != nil {
		return err
	}
	job := consumer.Job{Client: client, URL: modelURL, Sink: k, NewestFirst: true, BatchEntities: 9}
	_, err = job.Run(ctx)
	return err
}

// newestFirst fills a sink newest first, and then expects the contents of a sink that was filled in
// order.
func (s suite) newestFirst(t *testing.T) {
	dir := t.TempDir()
	k := s.backfiller(t, dir)
	must(t, consumeNewestFirst(t.Context(), k))
	s.checkNewestFirst(t, k, dir)
}

func (s suite) checkNewestFirst(t *testing.T, k consumer.Sink, dir string) {
	t.Helper()
	position, err := k.Position(t.Context())
	must(t, err)
	g := modelGenerator()
	g.skip(number(position.ContentID))
	if position.Tail != nil || g.n < modelEntities {
		t.Errorf("position is %+v", position)
	}
	closeSink(t, k)
	s.check(t, dir, g.records(false)...)
}

// killNewestFirst kills, at random, processes that fill a sink newest first.
func (s suite) killNewestFirst(t *testing.T) {
	if s.child(t, consumeModel) {
		return
	}
	dir := t.TempDir()
	closeSink(t, s.backfiller(t, dir))
	times := max(1, s.kills()/4)
	for range times {
		if !runChild(t, dir, 0, 0, 1+rand.IntN(20_000)) {
			break // it is complete
		}
	}
	k := s.open(t, dir)
	must(t, consumeNewestFirst(t.Context(), k))
	s.checkNewestFirst(t, k, dir)
}

// consumeModel is run by a child process of killNewestFirst.
func consumeModel(ctx context.Context, k consumer.Sink, _ int) error {
	if err := consumeNewestFirst(ctx, k); err != nil {
		return err
	}
	if at, err := k.Position(ctx); err != nil || at.Tail != nil {
		return errors.Join(err, errors.New("the tail is not complete"))
	}
	return nil
}
