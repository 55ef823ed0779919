package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// ask sends a request, with the given Host if it is not empty.
func (s *site) ask(t *testing.T, method, path, host string, fields ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader("hello"))
	check(t, err)
	if host != "" {
		r.Host = host
	}
	r.Header.Set("Content-Type", "text/plain")
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, value)
	}
	response, err := s.client.Do(r)
	check(t, err)
	check(t, response.Body.Close())
	return response
}

// TestOrigins sends the requests that a browser would send for web pages of various origins.
func TestOrigins(t *testing.T) {
	const public = "https://data.example.org:8443/base"
	auth := []server.Credential{{Bearer: "secret"}}
	for name, c := range map[string]struct {
		config      server.Config
		host        string
		fields      []string
		read, write int
	}{
		"program":                         {read: 200, write: 200},
		"page of the server":              {fields: []string{"Sec-Fetch-Site: same-origin"}, read: 200, write: 200},
		"page of another site":            {fields: []string{"Sec-Fetch-Site: cross-site", "Origin: http://evil.example"}, read: 200, write: 403},
		"another site, no Sec-Fetch-Site": {fields: []string{"Origin: http://evil.example"}, read: 200, write: 403},
		"sandboxed page":                  {fields: []string{"Origin: null"}, read: 200, write: 403},
		"page of the public URL": {config: server.Config{PublicURL: public},
			fields: []string{"Sec-Fetch-Site: cross-site", "Origin: https://data.example.org:8443"}, read: 200, write: 200},
		"credentials from another site": {config: server.Config{WriteAuth: auth},
			fields: []string{"Origin: http://evil.example", "Authorization: Bearer secret"}, read: 200, write: 403},
		"rebound name": {host: "evil.example:8080", fields: []string{"Origin: http://evil.example:8080"}, read: 421, write: 421},
		"rebound name, credentials to write": {config: server.Config{WriteAuth: auth}, host: "evil.example",
			fields: []string{"Authorization: Bearer secret"}, read: 421, write: 200},
		"rebound name, credentials to read": {config: server.Config{ReadAuth: auth}, host: "evil.example",
			fields: []string{"Authorization: Bearer secret"}, read: 200, write: 421},
		"localhost":                     {host: "LocalHost:1", read: 200, write: 200},
		"name below localhost":          {host: "feeds.localhost", read: 200, write: 200},
		"loopback address":              {host: "127.9.9.9", read: 200, write: 200},
		"loopback address, IPv6":        {host: "[::1]:80", read: 200, write: 200},
		"other address":                 {host: "192.0.2.1", read: 421, write: 421},
		"name beginning with localhost": {host: "localhost.evil.example", read: 421, write: 421},
		"public host":                   {config: server.Config{PublicURL: public}, host: "data.example.org:8443", read: 200, write: 200},
		"public host, other port":       {config: server.Config{PublicURL: public}, host: "data.example.org", read: 421, write: 421},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			publishTo(t, store, "f", 1, 1)
			c.config.Writable = true
			s := overNetwork(t, newServer(t, store, c.config))
			if got := s.ask(t, http.MethodPost, "/feeds/f", c.host, c.fields...); got.StatusCode != c.write {
				t.Errorf("POST: %s, want %d", got.Status, c.write)
			}
			for _, path := range []string{"/feeds/f", "/feeds/f/pages/1", "/"} {
				if got := s.ask(t, http.MethodGet, path, c.host, c.fields...); got.StatusCode != c.read {
					t.Errorf("GET %s: %s, want %d", path, got.Status, c.read)
				}
			}
			if got := s.ask(t, http.MethodGet, "/healthz", c.host); got.StatusCode != http.StatusOK {
				t.Errorf("health: %s", got.Status)
			}
		})
	}
}

// TestHostIsNotCached: a response that contains the request's Host is not for shared caches,
// and pages have the same tag and digest for every Host.
func TestHostIsNotCached(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 1, 7)
	for _, public := range []string{"", "http://data.example.org"} {
		s := overNetwork(t, newServer(t, store, server.Config{PublicURL: public}))
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/1"} {
			one, two := s.ask(t, http.MethodGet, path, ""), s.ask(t, http.MethodGet, path, "a.localhost")
			if private := strings.HasPrefix(one.Header.Get("Cache-Control"), "private, "); private != (public == "") {
				t.Errorf("public URL %q: %s has Cache-Control %q", public, path, one.Header.Get("Cache-Control"))
			}
			for _, name := range []string{"Etag", "Repr-Digest", "Feedctl-Chain"} {
				if one.Header.Get(name) != two.Header.Get(name) || one.Header.Get(name) == "" && name == "Etag" {
					t.Errorf("public URL %q: %s has %s %q and %q", public, path, name, one.Header.Get(name), two.Header.Get(name))
				}
			}
		}
	}
}
