package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// mounts holds ways to mount a handler below a prefix.
var mounts = map[string]struct {
	prefix string // as in a URL
	mount  func(http.Handler) http.Handler
}{
	"root": {"", func(h http.Handler) http.Handler { return h }},
	"chi.Mount, two levels": {"/api/v1/data", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Route("/api", func(r chi.Router) {
			r.Route("/v1", func(r chi.Router) { r.Mount("/data", h) })
		})
		return router
	}},
	"chi.Mount at the root": {"", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Mount("/", h)
		return router
	}},
	"chi.Mount with StripPrefix": {"/api/data", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Route("/api", func(r chi.Router) { r.Mount("/data", http.StripPrefix("/api/data", h)) })
		return router
	}},
	"chi.Handle with StripPrefix": {"/api/data", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Route("/api", func(r chi.Router) { r.Handle("/data/*", http.StripPrefix("/api/data", h)) })
		return router
	}},
	"chi.Mount with a parameter named like the server's": {"/a%2Fb", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Mount("/{feed}", h)
		return router
	}},
	"StripPrefix around chi.Mount": {"/api/data", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Mount("/data", h)
		return http.StripPrefix("/api", router)
	}},
	"StripSlashes of chi": {"/data", func(h http.Handler) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.StripSlashes)
		router.Mount("/data", h)
		return router
	}},
	"ServeMux": {"/data", func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/data/", http.StripPrefix("/data", h))
		return mux
	}},
	"ServeMux, two levels": {"/api/data", func(h http.Handler) http.Handler {
		inner, outer := http.NewServeMux(), http.NewServeMux()
		inner.Handle("/data/", http.StripPrefix("/data", h))
		outer.Handle("/api/", http.StripPrefix("/api", inner))
		return outer
	}},
	"StripPrefix with a slash at its end": {"/data", func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/data/", http.StripPrefix("/data/", h))
		return mux
	}},
	"encoded prefix": {"/all%20feeds/Z%C3%BCrich", func(h http.Handler) http.Handler {
		return http.StripPrefix("/all feeds/Zürich", h)
	}},
}

// TestMounted follows all links of a server that is mounted below a prefix: the directory,
// a feed, a snapshot and a receipt.
func TestMounted(t *testing.T) {
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			publishTo(t, store, "f", 1, 7)
			writeSnapshot(t, store, "f", 4)
			s := overNetwork(t, m.mount(newServer(t, store, server.Config{Writable: true})))
			root := s.url + m.prefix

			var directory server.Directory
			check(t, json.Unmarshal(s.get(t, m.prefix+"/", "X-Forwarded-Prefix: /evil").body, &directory))
			if len(directory.Feeds) != 1 || directory.Feeds[0].URL != root+"/feeds/f" || len(directory.Snapshots) != 1 || directory.Snapshots[0].URL != root+"/snapshots/f" {
				t.Fatalf("directory %+v, want URLs below %s", directory, root)
			}
			check(t, json.Unmarshal(s.get(t, m.prefix+"/?limit=1").body, &directory))
			if want := root + "/?after=feeds%2Ff&limit=1"; directory.Next != want {
				t.Errorf("the next page of the directory is %s, want %s", directory.Next, want)
			}

			client, err := consumer.New(consumer.Config{HTTPClient: s.client})
			check(t, err)
			read := 0
			for e, err := range client.Entities(t.Context(), root+"/feeds/f", consumer.Beginning()) {
				check(t, err)
				if read++; e.ContentID != fmt.Sprintf("<%d>", read) || !strings.HasPrefix(e.Position().Page, root+"/feeds/f/pages/") {
					t.Errorf("entity %d is %s on page %s", read, e.ContentID, e.Position().Page)
				}
			}
			if read != 7 {
				t.Errorf("read %d entities of the feed, want 7", read)
			}
			read = 0
			for _, err := range client.Snapshot(t.Context(), root+"/snapshots/f", feed.SnapshotPosition{}) {
				check(t, err)
				read++
			}
			if read != 4 {
				t.Errorf("read %d entities of the snapshot, want 4", read)
			}
			index, err := client.Index(t.Context(), root+"/snapshots/f")
			check(t, err)
			if index.Feed.URL != root+"/feeds/f" || index.Feed.Page != root+"/feeds/f/pages/1" {
				t.Errorf("the index refers to the feed %+v", index.Feed)
			}

			r := receipt(t, s.do(t, http.MethodPost, m.prefix+"/feeds/f", "x", "Content-Type: text/plain"))
			if got := s.get(t, r.Page); !strings.HasPrefix(r.Page, root) || got.StatusCode != http.StatusOK {
				t.Errorf("the receipt names page %s: %s", r.Page, got.Status)
			}
		})
	}
}

// TestMountedWithoutSlash requests the directory at the prefix itself. ServeMux redirects the request.
func TestMountedWithoutSlash(t *testing.T) {
	for _, name := range []string{"chi.Mount, two levels", "chi.Mount with StripPrefix", "ServeMux", "encoded prefix"} {
		store := memory.New()
		publishTo(t, store, "f", 1, 1)
		s := overNetwork(t, mounts[name].mount(newServer(t, store, server.Config{})))
		var directory server.Directory
		got := s.get(t, mounts[name].prefix)
		if err := json.Unmarshal(got.body, &directory); err != nil || directory.Feeds[0].URL != s.url+mounts[name].prefix+"/feeds/f" {
			t.Errorf("%s: %s %s (%v)", name, got.Status, got.body, err)
		}
	}
}

// TestPublicURLHasPrecedence: links begin with Config.PublicURL, wherever the server is mounted.
func TestPublicURLHasPrecedence(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 1)
	s := overNetwork(t, http.StripPrefix("/data", newServer(t, store, server.Config{PublicURL: "https://example.org/public"})))
	if got := s.get(t, "/data/feeds/f").Header.Get("Link"); got != `<https://example.org/public/feeds/f/pages/1>; rel="self"` {
		t.Errorf("Link %s", got)
	}
}

// TestMountedOtherwise: where the prefix cannot be derived from the request, links begin at
// the root.
func TestMountedOtherwise(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 1)
	s := newServer(t, store, server.Config{})
	for name, r := range map[string]*http.Request{
		"rewritten path": httptest.NewRequest(http.MethodGet, "http://h/prices", nil),
		"absolute form":  httptest.NewRequest(http.MethodGet, "http://h/feeds/f", nil),
		"no RequestURI":  httptest.NewRequest(http.MethodGet, "http://h/feeds/f", nil),
	} {
		r.URL.Path = "/feeds/f"
		if name == "no RequestURI" {
			r.RequestURI = ""
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(context.Background()))
		if got := w.Header().Get("Link"); got != `<http://h/feeds/f/pages/1>; rel="self"` {
			t.Errorf("%s: Link %q", name, got)
		}
	}
}
