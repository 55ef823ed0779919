package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/page"
)

// A hop is a redirect.
type hop struct {
	status   int
	from, to *url.URL
}

const maxHops = 10

// reach gets the newest page, following redirects and the server's directory.
func (v *visit) reach(ctx context.Context) result {
	for {
		a, err := v.get(ctx, v.feed)
		if err != nil {
			return unreachable(err)
		}
		switch {
		case a.status/100 == 3:
			to, err := v.feed.Parse(a.header.Get("Location"))
			if err != nil || a.header.Get("Location") == "" || len(v.hops) == maxHops {
				return problem("redirects lead nowhere: "+v.feed.String(), "correct the redirect, or use the feed's own URL")
			}
			if !v.permitted(to) {
				return problem("redirects to another origin: "+to.Redacted(),
					"use the feed's own URL, or trust the origin with --allow-origin")
			}
			v.hops = append(v.hops, hop{a.status, v.feed, to})
			v.feed = to
			continue
		case a.status == http.StatusNoContent:
			return fine("the feed is empty: " + a.text())
		case a.status != http.StatusOK:
			return refused(a)
		}
		first, isDirectory := v.directory(a)
		switch {
		case isDirectory && first == nil:
			return problem("the server has no feed", "publish one, or use the URL of a feed")
		case isDirectory:
			v.feed = first
			continue
		}
		return v.accept(a)
	}
}

// permitted reports whether requests may go to a URL.
func (v *visit) permitted(u *url.URL) bool {
	if sameOrigin(u, v.home) {
		return true
	}
	for _, allowed := range v.config.AllowOrigins {
		if o, err := url.Parse(allowed); err == nil && sameOrigin(u, o) {
			return true
		}
	}
	return false
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if u.Port() == "" {
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Port()
}

// get gets a URL without a content coding.
func (v *visit) get(ctx context.Context, u *url.URL) (*answer, error) {
	return v.do(ctx, http.MethodGet, u, fields{identity})
}

func (v *visit) readEntry(ctx context.Context) error {
	a, err := v.get(ctx, v.feed)
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.text())
	}
	if err == nil {
		v.entry = a
	}
	return err
}

// directory returns the URL of the first feed in the directory of a server. ok is false if the answer
// is not a directory.
func (v *visit) directory(a *answer) (first *url.URL, ok bool) {
	var d struct {
		Feeds []struct{ URL string }
	}
	if kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); kind != "application/json" {
		return nil, false
	}
	if err := json.Unmarshal(a.body.start, &d); err != nil || d.Feeds == nil {
		return nil, false
	}
	for _, feed := range d.Feeds {
		// Use only the path of the URL: another check tests where links lead.
		if u, err := url.Parse(feed.URL); err == nil {
			return v.feed.ResolveReference(&url.URL{Path: u.Path, RawPath: u.RawPath}), true
		}
	}
	return nil, true
}

// accept checks that the answer is a page, and keeps it as the newest page.
func (v *visit) accept(a *answer) result {
	if _, err := page.Boundary(a.header.Get("Content-Type")); err != nil {
		found := fmt.Sprintf("the response is %q, not a page (multipart/mixed)", a.header.Get("Content-Type"))
		if kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); kind == "text/html" {
			return problem(found, "HTML probably comes from a login or error page in between: let requests to the feed through")
		}
		return problem(found, "use the URL of a feed; for a snapshot, see \"feedctl verify --index\"")
	}
	v.entry = a
	return fine(fmt.Sprintf("%s in %v", a.text(), a.took.Round(time.Millisecond)))
}

func unreachable(err error) result {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var repeated *url.Error
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	switch {
	case errors.As(err, &certificate):
		return problem(err.Error(), "renew or correct the server's certificate, with its intermediate certificates; for a private authority set SSL_CERT_FILE")
	case errors.As(err, &name):
		return problem(err.Error(), "correct the host in the URL, or its DNS entry")
	}
	return problem(err.Error(), "start the server, and allow connections to it in the firewall")
}

func refused(a *answer) result {
	found := "the response is " + a.text()
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		return problem(found, "set --credentials-file or FEEDCTL_CREDENTIALS; if the credentials are right, check that the proxy forwards Authorization")
	case a.status == http.StatusNotFound || a.status == http.StatusGone:
		return problem(found, "correct the URL: /feeds/NAME, below the proxy's path for the server; a feed exists once it has an entity")
	case a.status == http.StatusTooManyRequests:
		return problem(found, "raise the rate limit for consumers")
	case a.status >= 500:
		return problem(found, "check the logs of the server and the proxy, which sends 502 and 504 itself")
	}
	return problem(found, "check the log of the server")
}
