package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// An origins refuses requests that a browser makes for a page of somebody else.
type origins struct {
	cross  *http.CrossOriginProtection
	public string // host of Config.PublicURL, with its port if it has one; or ""
}

func newOrigins(publicURL string) (*origins, error) {
	o := &origins{cross: http.NewCrossOriginProtection()}
	if publicURL == "" {
		return o, nil
	}
	u, err := url.Parse(publicURL)
	if err == nil {
		o.public = u.Host
		err = o.cross.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("configure server: public URL: %w", err)
	}
	return o, nil
}

// same lets h answer what no web page of another origin sent. Programs other than
// browsers do not say where a request is from, and pass.
func (o *origins) same(h handler) handler {
	return func(w *responder, r *http.Request) error {
		if err := o.cross.Check(r); err != nil {
			return newProblem(http.StatusForbidden, "cross-origin", "a web page of another origin sent this request: %v", err)
		}
		return h(w, r)
	}
}

// local lets h answer requests by the name of this machine or of the public URL, if
// they came to a loopback address. A web page can have its own name resolve to such an
// address (DNS rebinding), and is of the same origin then. Where credentials are asked
// for, it does not have them.
func (o *origins) local(g *guard, h handler) handler {
	if !g.open() {
		return h
	}
	return func(w *responder, r *http.Request) error {
		if onLoopback(r) && !isLoopbackHost(r.Host) && !strings.EqualFold(r.Host, o.public) {
			return newProblem(http.StatusMisdirectedRequest, "host",
				"Host is %.100q, and the server listens on a loopback address without credentials: ask for localhost, or have it started with the URL that clients use (--public-url)", r.Host)
		}
		return h(w, r)
	}
}

// onLoopback reports whether a request came to a loopback address.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isLoopbackHost reports whether a Host, with or without a port, can only be this
// machine (RFC 6761, section 6.3). HTTP/1.0 does without Host.
func isLoopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name = strings.TrimSuffix(name, ".")
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
