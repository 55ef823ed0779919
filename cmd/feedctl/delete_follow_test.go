package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/stores"
)

// TestDeleteWhileFollowed deletes a feed that a consumer follows, over HTTP during a
// long-poll or in the store, and publishes a new feed with the same name, before or after
// the consumer notices. The consumer must end with an error that describes the deletion,
// and its sink must have nothing of the new feed.
func TestDeleteWhileFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		web, again, early bool // the feed is published again before the consumer polls
		codes             []int
		want              []string
	}{
		"HTTP":                          {web: true, codes: []int{exit.NotFound}, want: []string{"deleted"}},
		"HTTP, published again":         {web: true, again: true, codes: []int{exit.NotFound, exit.Gap}, want: []string{"deleted", "--on-gap"}},
		"HTTP, published again at once": {web: true, again: true, early: true, codes: []int{exit.Gap}, want: []string{"--on-gap"}},
		"store":                         {codes: []int{exit.NotFound}, want: []string{"deleted"}},
		"store, published again":        {again: true, codes: []int{exit.NotFound, exit.Gap}, want: []string{"deleted", "--on-gap"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := "file:" + filepath.Join(dir, "store")
			mustRun(t, "{\"name\":\"one\"}\n{\"name\":\"of-the-end\"}\n", "publish", store+"#zones", "--key", "/name")
			feed, held, proceed := store+"#zones", make(chan struct{}), make(chan struct{})
			if test.web {
				feed = holdPolls(t, store, held, proceed) + "/feeds/zones"
			}
			if !test.early {
				close(proceed)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended, read := make(chan int, 1), make(chan struct{})
			out, stderr := &watched{text: "of-the-end", seen: read}, &strings.Builder{}
			go func() {
				ended <- run(ctx, []string{"consume", feed, "--follow", "--into", "-"}, app.Streams{In: strings.NewReader(""), Out: out, Err: stderr})
			}()
			<-read
			if test.web {
				<-held
			}
			mustRun(t, "", "delete", store+"#zones", "--yes")
			if test.again {
				mustRun(t, `{"name":"of-the-new-feed"}`, "publish", store+"#zones", "--key", "/name")
			}
			if test.early {
				close(proceed)
			}
			code := <-ended
			if !slices.Contains(test.codes, code) || !slices.ContainsFunc(test.want, func(s string) bool { return strings.Contains(stderr.String(), s) }) {
				t.Errorf("exit status %d: %s", code, stderr)
			}
			if strings.Count(out.last, "\n") != 2 || strings.Contains(out.last, "of-the-new-feed") {
				t.Errorf("consumed %s", out.last)
			}
		})
	}
}

// holdPolls serves a store, reports when a long-poll has arrived, and delays it until it
// may proceed.
func holdPolls(t *testing.T, url string, held chan<- struct{}, proceed <-chan struct{}) string {
	t.Helper()
	store, err := stores.Open(t.Context(), url, stores.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Prefer") != "" && held != nil {
			close(held)
			held = nil
			<-proceed
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = handler.Close(context.WithoutCancel(t.Context()))
		web.Close()
		_ = store.Close()
	})
	return web.URL
}
