package access_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/problem"
)

// TestControl sends requests with each credential to servers with and without credentials.
func TestControl(t *testing.T) {
	t.Parallel()
	reader, writer := access.Credential{Username: "reader", Password: "r"}, access.Credential{Bearer: "w"}
	as := map[string]func(*http.Request){
		"no one":         func(*http.Request) {},
		"reader":         func(r *http.Request) { r.SetBasicAuth("reader", "r") },
		"writer":         func(r *http.Request) { r.Header.Set("Authorization", "bearer  w") },
		"wrong password": func(r *http.Request) { r.SetBasicAuth("reader", "w") },
		"empty token":    func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"writer on a page of another origin": func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer w")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
		"a page of another origin": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another host":             func(r *http.Request) { r.Host = "rebound.example.org" },
		"the public host":          func(r *http.Request) { r.Host = "feeds.example.org" },
	}
	type status struct{ read, write int }
	for name, test := range map[string]struct {
		read, write []access.Credential
		want        map[string]status
	}{
		"open": {want: map[string]status{
			"no one": {}, "wrong password": {}, "the public host": {}, "another host": {421, 421}, "a page of another origin": {0, 403},
		}},
		"closed": {[]access.Credential{reader}, []access.Credential{writer}, map[string]status{
			"no one": {401, 401}, "reader": {0, 403}, "writer": {403, 0}, "wrong password": {401, 401}, "empty token": {401, 401},
			"writer on a page of another origin": {403, 403}, "another host": {401, 401},
		}},
		"open to readers": {nil, []access.Credential{writer}, map[string]status{
			"no one": {0, 401}, "writer": {0, 0}, "another host": {421, 401},
		}},
	} {
		c, err := access.New(test.read, test.write, "https://feeds.example.org")
		if err != nil {
			t.Fatal(err)
		}
		if c.OpenReads() != (test.read == nil) {
			t.Errorf("%s: OpenReads is %t", name, c.OpenReads())
		}
		for who, want := range test.want {
			for do, call := range map[string]struct {
				allow func(http.Header, *http.Request) error
				want  int
			}{http.MethodGet: {c.Read, want.read}, http.MethodPost: {c.Write, want.write}} {
				r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}), do, "http://127.0.0.1/", nil)
				as[who](r)
				h := http.Header{}
				err, got := call.allow(h, r), 0
				if p, ok := errors.AsType[*problem.Error](err); ok {
					got = p.Status
				}
				if got != call.want || (got == 401) != (h.Get("WWW-Authenticate") != "") {
					t.Errorf("%s: %s by %s has status %d, want %d; challenge %q (%v)", name, do, who, got, call.want, h, err)
				}
			}
		}
	}
}

// TestCredential: malformed credentials are refused, and secrets are not shown.
func TestCredential(t *testing.T) {
	t.Parallel()
	for _, c := range []access.Credential{{}, {Username: "u"}, {Password: "p"}, {Username: "u:v", Password: "p"}, {Username: "u", Password: "p", Bearer: "b"}} {
		if _, err := access.New(nil, []access.Credential{c}, ""); err == nil {
			t.Errorf("%#v is accepted", c)
		}
	}
	for c, want := range map[access.Credential]string{{Username: "u", Password: "p"}: "Basic u:...", {Bearer: "b"}: "Bearer ..."} {
		if got := c.GoString(); got != want || c.String() != want {
			t.Errorf("credential is shown as %q, want %q", got, want)
		}
	}
}

// TestOnlyLocal: only addresses that can be reached just from this machine are local.
func TestOnlyLocal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false, "example.org:80": false, "localhost.example.org:80": false,
	} {
		if got, err := access.OnlyLocal(address); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", address, got, err, want)
		}
	}
	if _, err := access.OnlyLocal("127.0.0.1"); err == nil {
		t.Error("an address without a port is accepted")
	}
}

// TestWhich: Reader and Writer return the index of the credential in a request.
func TestWhich(t *testing.T) {
	t.Parallel()
	c, err := access.New([]access.Credential{{Bearer: "a"}, {Username: "b", Password: "p"}, {Bearer: "c"}}, []access.Credential{{Bearer: "c"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for authorization, want := range map[string][2]int{
		"Bearer a": {0, -1}, "Basic Yjpw": {1, -1}, "Bearer c": {2, 0}, "Bearer d": {-1, -1}, "Bearer ": {-1, -1}, "": {-1, -1},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("Authorization", authorization)
		if got := [2]int{c.Reader(r), c.Writer(r)}; got != want {
			t.Errorf("%q is credential %v, want %v", authorization, got, want)
		}
	}
}
