package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestLinksOfSharedPages: requests share what is remembered of a page, but not its links, which
// depend on the Host and on the oldest page.
func TestLinksOfSharedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publishLarge(t, store, "f", 3)
		transport := inprocess.Transport(newServer(t, store, server.Config{}))
		links := func(host string, want ...string) {
			t.Helper()
			for range 2 {
				r, err := http.NewRequest(http.MethodHead, host+"/feeds/f/pages/2", nil)
				check(t, err)
				response, err := transport.RoundTrip(r)
				check(t, err)
				check(t, response.Body.Close())
				if diff := cmp.Diff(want, response.Header["Link"]); diff != "" {
					t.Errorf("links at %s (-want +got):\n%s", host, diff)
				}
			}
		}
		links("http://a", `<http://a/feeds/f/pages/2>; rel="self"`, `<http://a/feeds/f/pages/1>; rel="prev"`, `<http://a/feeds/f/pages/3>; rel="next"`, `<http://a/feeds/f>; rel="last"`, `<http://a/feeds/f/index/0>; rel="timemap"; type="application/json"`)
		links("http://b", `<http://b/feeds/f/pages/2>; rel="self"`, `<http://b/feeds/f/pages/1>; rel="prev"`, `<http://b/feeds/f/pages/3>; rel="next"`, `<http://b/feeds/f>; rel="last"`, `<http://b/feeds/f/index/0>; rel="timemap"; type="application/json"`)
		_, err := chain.RaiseFloor(t.Context(), store, "f", 2)
		check(t, err)
		time.Sleep(time.Second)
		links("http://a", `<http://a/feeds/f/pages/2>; rel="self"`, `<http://a/feeds/f/pages/3>; rel="next"`, `<http://a/feeds/f>; rel="last"`, `<http://a/feeds/f/index/0>; rel="timemap"; type="application/json"`)
	})
}
