package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// origins refuses requests that a browser sends for a web page of another origin.
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
		return nil, fmt.Errorf("configure server: parse public URL: %w", err)
	}
	return o, nil
}

// same wraps h to refuse requests that a web page of another origin sent. Programs
// other than browsers do not send an origin, and pass.
func (o *origins) same(h handler) handler {
	return func(w *responder, r *http.Request) error {
		if err := o.cross.Check(r); err != nil {
			return newProblem(http.StatusForbidden, "cross-origin", "a web page of another origin sent this request: %v", err)
		}
		return h(w, r)
	}
}

// local wraps h to refuse requests to a loopback address whose Host is neither this
// machine nor the public URL's. Otherwise a web page could have its own name resolve to
// a loopback address (DNS rebinding) and be of the same origin. Where credentials are
// required there is no such check, since the page does not have them.
func (o *origins) local(g *guard, h handler) handler {
	if !g.open() {
		return h
	}
	return func(w *responder, r *http.Request) error {
		if onLoopback(r) && !isLoopbackHost(r.Host) && !strings.EqualFold(r.Host, o.public) {
			return newProblem(http.StatusMisdirectedRequest, "host",
				"Host is %.100q, and the server listens on a loopback address without credentials: use localhost, or start the server with the URL that clients use (--public-url)", r.Host)
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
// machine (RFC 6761, section 6.3). HTTP/1.0 does not require Host.
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
