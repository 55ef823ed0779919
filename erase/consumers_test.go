package erase_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// served returns the URL of the test feed on a server that runs during the test.
func served(t *testing.T, store storage.Store) string {
	t.Helper()
	s, err := server.New(store, server.Config{Producer: producer.Config{SpoolDir: t.TempDir()}})
	check(t, err)
	site := httptest.NewServer(s)
	t.Cleanup(func() { site.Close(); check(t, s.Close(context.Background())) })
	return site.URL + "/feeds/" + testFeed
}

// older returns a position as versions of feedctl without identities wrote it.
func older(p feed.Position) feed.Position {
	p.Identity, p.Epoch = "", ""
	return p
}

// TestServed: a server that runs during an erasure serves the copies afterwards, and no former page.
// Consumers at any position read each later entity exactly once, whether they are of this version, of one
// without identities, or know only the specification.
func TestServed(t *testing.T) {
	store := memory.New()
	for n := range 20 {
		check(t, publish(t.Context(), store, entity(n, []string{"bob", ann, "cem"}[n%3], feed.Put)))
	}
	url := served(t, store)
	client, err := consumer.New(consumer.Config{})
	check(t, err)
	pages := map[string]bool{}
	positions := []feed.Position{{}}
	for e, err := range client.Entities(t.Context(), url, consumer.Beginning()) {
		check(t, err)
		positions, pages[e.Page] = append(positions, e.Position()), true
	}
	_, err = eraseKeys(t.Context(), store, erase.Config{})
	check(t, err)
	all := visible(t, store)
	for i, at := range positions {
		for what, got := range map[string][]string{
			"this version": idsAfter(t, client, url, at), "earlier version": idsAfter(t, client, url, older(at)),
			"specification": bySpecification(t, url, at),
		} {
			if !slices.Equal(got, all[i:]) {
				t.Errorf("%s, after %+v: %v, want %v", what, at, got, all[i:])
			}
		}
	}
	for former := range pages {
		if status := get(t, http.MethodGet, former).StatusCode; status != http.StatusGone {
			t.Errorf("%s: status %d", former, status)
		}
	}
}

func idsAfter(t *testing.T, client *consumer.Client, url string, at feed.Position) (ids []string) {
	t.Helper()
	for e, err := range client.Entities(t.Context(), url, consumer.After(at)) {
		check(t, err)
		ids = append(ids, e.ContentID)
	}
	return ids
}

func get(t *testing.T, method, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// bySpecification reads the entities after a position with the algorithm of the specification: it goes back
// to the first page that is strictly older than the position, and then forward.
func bySpecification(t *testing.T, url string, at feed.Position) (ids []string) {
	t.Helper()
	links := func(r *http.Response) feed.Links {
		l, err := feed.ParseLinks(r.Request.URL, r.Header)
		check(t, err)
		return l
	}
	for {
		r := get(t, http.MethodHead, url)
		modified, err := http.ParseTime(r.Header.Get("Last-Modified"))
		check(t, err)
		prev := links(r).Prev
		if prev == "" || modified.Before(at.LastModified) {
			break
		}
		url = prev
	}
	skipping := at.ContentID != ""
	for url != "" {
		r := get(t, http.MethodGet, url)
		boundary, err := page.Boundary(r.Header.Get("Content-Type"))
		check(t, err)
		for part, err := range page.NewReader(r.Body, boundary, page.ReaderOptions{}).Parts() {
			check(t, err)
			id := string(part.Header.Get("Content-ID"))
			if !skipping {
				ids = append(ids, id)
			}
			skipping = skipping && id != at.ContentID
		}
		url = links(r).Next
	}
	return ids
}

// TestFollowing: a consumer that waits at the end of the feed continues after an erasure.
func TestFollowing(t *testing.T) {
	store, f := beginning(t, 7)
	defer f.Close()
	url := served(t, store)
	client, err := consumer.New(consumer.Config{Follow: true})
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		for e, err := range client.Entities(ctx, url, consumer.Beginning()) {
			if err != nil {
				done <- err
				return
			}
			read <- e.ContentID
		}
	}()
	var got []string
	until := func(id string) {
		for len(got) == 0 || got[len(got)-1] != id {
			select {
			case err := <-done:
				t.Fatal(err)
			case id := <-read:
				got = append(got, id)
			}
		}
	}
	until("<6@test>")
	for n := 100; n < 103; n++ {
		_, err := eraseKeys(t.Context(), store, erase.Config{})
		check(t, err)
		_, err = f.Publish(t.Context(), entity(n, ann, feed.Put))
		check(t, err)
		until(entity(n, ann, feed.Put).ContentID)
	}
	if want := visible(t, store); !slices.Equal(got, want) {
		t.Errorf("read %v, the feed has %v", got, want)
	}
}

// TestNewestFirst: a sink that is filled from the newest entity back is complete after an erasure, and so is
// one that begins with a snapshot.
func TestNewestFirst(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		store := memory.New()
		for n := range 40 {
			check(t, publish(t.Context(), store, entity(n, []string{"bob", "cem", ann, "dee"}[n%4], feed.Put)))
		}
		if snapshot {
			_, err := fold.Feed(t.Context(), store, testFeed, fold.Config{})
			check(t, err)
			check(t, publish(t.Context(), store, others(100, 110)...))
		}
		url := served(t, store)
		client, err := consumer.New(consumer.Config{})
		check(t, err)
		path := filepath.Join(t.TempDir(), "people.db")
		run := func(limit int64) error {
			table, err := sqlite.Open(t.Context(), path, sqlite.DefaultTable)
			check(t, err)
			defer table.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			job := consumer.Job{Client: client, URL: url, Sink: table, NewestFirst: !snapshot, BatchEntities: 3, Progress: func(p consumer.Progress) {
				if p.Entities >= limit {
					cancel()
				}
			}}
			if snapshot {
				job.From = consumer.FromSnapshot(url[:len(url)-len("/feeds/"+testFeed)] + "/snapshots/" + testFeed)
			}
			_, err = job.Run(ctx)
			return err
		}
		if err := run(3); !errors.Is(err, context.Canceled) {
			t.Fatalf("snapshot %v: %v", snapshot, err)
		}
		_, err = eraseKeys(t.Context(), store, erase.Config{})
		check(t, err)
		check(t, run(1000))
		contents, err := sqlite.OpenContents(t.Context(), sink.Spec{Scheme: "sqlite", Path: path})
		check(t, err)
		var keys []string
		for row, err := range contents.Rows(t.Context(), "", "") {
			check(t, err)
			keys = append(keys, row.Key)
		}
		check(t, contents.Close())
		if want := slices.Sorted(maps.Keys(apply(nil, read(t, store, consumer.Beginning())...))); !slices.Equal(keys, want) {
			t.Errorf("snapshot %v: the table has %v, want %v", snapshot, keys, want)
		}
	}
}
