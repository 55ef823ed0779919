package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
)

// ServeHTTP implements [http.Handler]. The server may be mounted below a prefix, with
// [http.StripPrefix], with chi's Mount, or both: links include the prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := s.routing.Get().(*chi.Context)
	defer func() {
		route.Reset()
		s.routing.Put(route)
	}()
	route.RoutePath = routePath(r)
	s.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, route)))
}

// routePath returns the request's path without the prefix at which the server is mounted. StripPrefix removes
// the prefix from the URL, a chi router only from the path in its context: the shorter of the two paths is
// without everything that was removed.
func routePath(r *http.Request) string {
	path := cmp.Or(r.URL.RawPath, r.URL.Path)
	if parent := chi.RouteContext(r.Context()); parent != nil && parent.RoutePath != "" && len(parent.RoutePath) < len(path) {
		path = parent.RoutePath
	}
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path // StripPrefix("/data/", s) removes the slash
}

// base returns the URL of this server's root, without a trailing slash.
func (s *Server) base(r *http.Request) string {
	if s.publicURL != "" {
		return s.publicURL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	host := r.Host
	if host == "" { // HTTP/1.0 does not require Host
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			host = addr.String()
		}
	}
	return scheme + "://" + host + prefix(r)
}

// prefix returns the path at which the server is mounted, encoded, without a trailing slash:
// the path that the client requested, without the path that the server routes by. The prefix
// is empty if the requested path does not end with the path that the server routes by, as
// when a handler has rewritten it.
func prefix(r *http.Request) string {
	route := chi.RouteContext(r.Context()).RoutePath
	if r.RequestURI == route {
		return ""
	}
	requested, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		requested = r.URL // the request did not come from a network
	}
	before, ok := strings.CutSuffix(strings.TrimSuffix(requested.EscapedPath(), "/"), strings.TrimSuffix(route, "/"))
	if !ok {
		return ""
	}
	return strings.TrimSuffix(before, "/")
}
