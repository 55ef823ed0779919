package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/pageindex"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/verify"
)

// TestPageIndex: false statements in a page index of two tiles are violations.
func TestPageIndex(t *testing.T) {
	const pages = pageindex.Size + 20
	store := memory.New()
	f, err := producer.Open(t.Context(), store, "zones", producer.Config{MaxPageEntities: 2})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2*pages - 1 {
		if _, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentID: fmt.Sprintf("<%d@example.com>", n), ContentType: "text/plain", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = handler.Close(context.WithoutCancel(t.Context()))
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		lie  func(*pageindex.Tile)
		want string // a part of the violation's text
		on   int    // page
	}{
		"true":         {func(*pageindex.Tile) {}, "", 0},
		"bytes":        {func(t *pageindex.Tile) { t.Pages[7].Bytes++ }, "but the page index says", 8},
		"entities":     {func(t *pageindex.Tile) { t.Pages[7].Entities = 3 }, "2 entities, but the page index says 3", 8},
		"last":         {func(t *pageindex.Tile) { t.Pages[7].Last = t.Pages[7].Last.AddDate(1, 0, 0) }, "Last-Modified", 8},
		"first":        {func(t *pageindex.Tile) { t.Pages[7].First = t.Pages[7].Last.AddDate(1, 0, 0) }, "newer than its last", 8},
		"self":         {func(t *pageindex.Tile) { t.Pages[7].Self = t.Pages[8].Self }, "chain digest self", 8},
		"prev":         {func(t *pageindex.Tile) { t.Pages[7].Prev = t.Pages[8].Self }, "chain digest prev", 8},
		"left out":     {func(t *pageindex.Tile) { t.Pages = t.Pages[:len(t.Pages)-1] }, "does not list it", 0},
		"another page": {func(t *pageindex.Tile) { t.Pages[7].URL = t.Pages[9].URL }, "does not list it", 8},
	} {
		for tile, first := range []int{1, pageindex.Size + 1} {
			t.Run(fmt.Sprintf("%s in tile %d", name, tile), func(t *testing.T) {
				at := fmt.Sprintf("/feeds/zones/index/%d", tile)
				liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != at {
						handler.ServeHTTP(w, r)
						return
					}
					response := httptest.NewRecorder()
					handler.ServeHTTP(response, r)
					parsed, err := pageindex.Parse(response.Body, &url.URL{Scheme: "http", Host: r.Host, Path: at})
					if err != nil {
						t.Error(err)
						return
					}
					c.lie(parsed)
					if err := json.NewEncoder(w).Encode(parsed); err != nil {
						t.Error(err)
					}
				}))
				defer liar.Close()
				report, err := verify.Feed(t.Context(), liar.URL+"/feeds/zones", verify.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if err := report.Err(); err != nil || report.Pages != pages {
						t.Errorf("%d pages, %v", report.Pages, err)
					}
					return
				}
				found := false
				for _, v := range report.Violations {
					found = found || v.Rule == verify.PageIndex && strings.Contains(v.Error(), c.want) && (c.on == 0 || strings.HasSuffix(v.URL, fmt.Sprint("/", first+c.on-1)))
				}
				if !found || len(report.Violations) > 2 {
					t.Errorf("violations %v, want %q", report.Err(), c.want)
				}
			})
		}
	}
	t.Run("no tile", func(t *testing.T) {
		for rule, tell := range map[verify.Rule]http.HandlerFunc{
			verify.PageIndex: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
			verify.Reachable: http.NotFound,
		} {
			asked := 0
			broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/index/") {
					asked++
					tell(w, r)
					return
				}
				handler.ServeHTTP(w, r)
			}))
			defer broken.Close()
			report, err := verify.Feed(t.Context(), broken.URL+"/feeds/zones", verify.Config{})
			if err != nil || len(report.Violations) != 2 || report.Violations[0].Rule != rule || asked != 2 {
				t.Errorf("%d requests for 2 tiles, %d violations: %+v, %v", asked, len(report.Violations), report, err)
			}
		}
	})
}
