package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/lintest"
	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

var aheadKills = flag.Int("ahead-kills", 5, "producers that TestKilledAhead kills, or more until it has killed one that was writing ahead")

// TestKilledAhead kills producers while they write several pages concurrently. Each time, another producer continues with
// the same input. Readers must always see a prefix of the input, never shorter than before.
func TestKilledAhead(t *testing.T) {
	t.Parallel()
	lines := 480 * *aheadKills
	server := s3test.Start(t)
	network := startNetwork(t, server, newSeed(t))
	network.weather.Set(0, 10*time.Millisecond)
	random := rand.New(rand.NewPCG(*seed, 2))
	var input []byte
	var want []string
	for n := range lines {
		want = append(want, fmt.Sprintf("e%06d", n))
		input = fmt.Appendf(input, `{"id":%q}`+"\n", want[n])
	}
	store := openS3(t, server.URL("ahead"))
	stopReading := readAllTheTime(t, want,
		&lintest.ChainReader{Store: store, Feed: "events", Cold: true},
		&lintest.ChainReader{Store: openS3(t, server.URL("ahead")), Feed: "events"})

	p := &process{t: t, name: "producer", args: []string{
		"publish", "events", "--key", "/id", "--content-id", "/id", "--max-page-entities", "20",
		"--resume", filepath.Join(t.TempDir(), "resume"), "--store", network.url("ahead"), "--log-level", "error",
	}, input: func(w io.Writer) error { _, err := w.Write(input); return err }}
	t.Cleanup(func() { p.kill(os.Kill) })
	killed, orphaned := 0, 0
	for done := false; !done && (killed < *aheadKills || orphaned == 0); { // on a slow machine, kills may come late
		sent := network.pages(1 + random.IntN(12))
		p.start()
		select {
		case <-sent:
		case <-p.exited:
			if p.err != nil {
				t.Fatalf("producer: %v\n%s", p.err, p.stderr)
			}
			done = true // fewer pages were left to write
			continue
		case <-time.After(waitLimit):
			t.Fatalf("no page was sent:\n%s", p.stderr)
		}
		p.kill(os.Kill)
		killed++
		if orphans(t, store, "events") > 0 {
			orphaned++
		}
	}
	p.start()
	waitFor(t, p.stderr.String, p.ended)
	if p.err != nil {
		t.Fatalf("producer: %v\n%s", p.err, p.stderr)
	}
	reads := stopReading()
	got, err := (&lintest.ChainReader{Store: store, Feed: "events"}).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entities in the feed, not the %d of the input in order", len(got), len(want))
	}
	feedctl(t, "verify", "events", "--store", server.URL("ahead"))
	t.Logf("%d of %d producers left orphans; %d reads", orphaned, killed, reads)
	if orphaned == 0 {
		t.Error("no producer was killed while writing ahead")
	}
}

// pages returns a channel that is closed once the given number of further pages has been
// written.
func (n *network) pages(count int) <-chan struct{} {
	sent := make(chan struct{})
	n.weather.OnRequest(func(r s3fault.Request) {
		if r.Operation == s3fault.PutObject && strings.Contains(r.Path, "/pages/") {
			if count--; count == 0 {
				close(sent)
			}
		}
	})
	return sent
}

// readAllTheTime reads continuously until the returned function is called, which returns
// the number of reads.
func readAllTheTime(t *testing.T, want []string, readers ...lintest.Reader) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	reads := 0
	var reading sync.WaitGroup
	for _, r := range readers {
		reading.Go(func() {
			for before := 0; ctx.Err() == nil; {
				got, err := r.Read(ctx)
				if ctx.Err() != nil {
					return
				}
				switch {
				case err != nil:
					t.Errorf("read: %v", err)
					return
				case len(got) < before, len(got) > len(want), !slices.Equal(got, want[:len(got)]):
					t.Errorf("read %d entities after %d, which are not a prefix of the input: %.500v", len(got), before, got)
					return
				}
				before = len(got)
				mu.Lock()
				reads++
				mu.Unlock()
			}
		})
	}
	return func() int {
		cancel()
		reading.Wait()
		return reads
	}
}

func openS3(t *testing.T, rawURL string) storage.Store {
	t.Helper()
	store, err := storage.Registry{"s3": s3.Open}.Open(t.Context(), rawURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// orphans returns the number of pages beyond the end of the feed.
func orphans(t *testing.T, store storage.Store, feed string) (count int) {
	t.Helper()
	after := ""
	if newest, err := chain.NewReader(store, feed).Newest(t.Context()); err == nil {
		after = layout.FeedPage(feed, newest.Number)
	} else if !errors.Is(err, chain.ErrNoFeed) {
		t.Fatal(err)
	}
	for _, err := range store.List(t.Context(), layout.FeedPages(feed), after) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	return count
}
