package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/internal/problem"
)

// origins refuses requests that a browser sends on behalf of a web page from another origin.
type origins struct {
	cross  *http.CrossOriginProtection
	public string // the host of the public URL, with the port if there is one; "" if there is no public URL
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
		return nil, fmt.Errorf("parse public URL: %w", err)
	}
	return o, nil
}

// same refuses requests that were sent by a web page of another origin. Programs other than browsers do not
// send an origin, so their requests are not refused.
func (o *origins) same(r *http.Request) error {
	if err := o.cross.Check(r); err != nil {
		return problem.New(http.StatusForbidden, "cross-origin", "a web page of another origin sent this request: %v", err)
	}
	return nil
}

// local refuses requests to a loopback address whose Host names neither this machine nor the host of the
// public URL. Otherwise, a web page could make its own name resolve to a loopback address (DNS rebinding),
// and so be of the same origin. If credentials are required, there is no such check, since the page does
// not have them.
func (o *origins) local(g *guard, r *http.Request) error {
	if g.open() && onLoopback(r) && !isLoopbackHost(r.Host) && !strings.EqualFold(r.Host, o.public) {
		return problem.New(http.StatusMisdirectedRequest, "host",
			"Host is %.100q, and the server listens on a loopback address without credentials: use localhost, or start the server with the URL that clients use (--public-url)", r.Host)
	}
	return nil
}

// onLoopback reports whether a request came to a loopback address.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isLoopbackHost reports whether a Host, with or without a port, can only name this machine (RFC 6761,
// section 6.3). It returns true for an empty Host, since HTTP/1.0 does not require the field.
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

// OnlyLocal reports whether a server that listens on the TCP address ("host:port", as for [net.Listen]) can
// be reached only from this machine. It does not resolve names: "localhost" is the only name that it
// accepts.
func OnlyLocal(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("check address to listen on: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback(), nil
}
