package doctor

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
)

func (v *visit) checkRedirects(context.Context) result {
	if len(v.hops) == 0 {
		return fine("none")
	}
	var way []string
	for _, h := range v.hops {
		way = append(way, fmt.Sprintf("%d to %s", h.status, h.to.Redacted()))
	}
	found, fix := strings.Join(way, ", "), "use the feed's own URL: "+v.feed.Redacted()
	if v.feed.Scheme != v.home.Scheme || v.feed.Host != v.home.Host {
		return problem("to another origin: "+found, fix)
	}
	return warning(found, fix+", which saves a second request each time")
}

// certificateTime is how long a certificate should still be valid.
const certificateTime = 14 * 24 * time.Hour

func (v *visit) checkTLS(context.Context) result {
	host := v.feed.Hostname()
	ip := net.ParseIP(host)
	switch local := host == "localhost" || ip != nil && ip.IsLoopback(); {
	case v.feed.Scheme == "https" && !v.entry.expiry.IsZero() && time.Until(v.entry.expiry) < certificateTime:
		return warning("the certificate expires at "+v.entry.expiry.UTC().Format(time.RFC3339), "renew it, and check why it was not renewed automatically")
	case v.feed.Scheme == "https":
		return fine("https")
	case local:
		return fine("http, on this machine")
	case v.config.Authorization != "":
		return problem("http, with credentials", "use https: \"feedctl serve --tls-cert --tls-key\", or a proxy with a certificate")
	}
	return warning("http", "use https: \"feedctl serve --tls-cert --tls-key\", or a proxy with a certificate")
}

func (v *visit) checkClock(context.Context) result {
	date, err := http.ParseTime(v.entry.header.Get("Date"))
	if err != nil {
		return skipped("the response has no Date")
	}
	skew := date.Sub(v.entry.sent.Add(v.entry.took / 2)).Round(time.Second)
	found := "the server's is " + apart(skew)
	if age := seconds(v.entry.header.Get("Age")); age > 0 && skew < 0 {
		return skipped(found + ", but the response is from a cache")
	}
	if skew.Abs() > maxClockSkew {
		return problem(found, "set the clock of this machine or the server's by NTP")
	}
	return fine(found)
}

// seconds parses delta-seconds (RFC 9111, section 1.2.2). It returns 0 for anything else.
func seconds(text string) time.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(text) + "s")
	if err != nil {
		return 0
	}
	return d
}

func (v *visit) checkBody(context.Context) result {
	body := v.entry.body
	fix := "check whether the server or a proxy truncates or rewrites responses (size or time limits, filters, injected scripts)"
	switch {
	case v.entry.err != nil:
		return problem(fmt.Sprintf("the transfer of the page fails after %d bytes: %v", body.size, v.entry.err), fix)
	case body.cut:
		return skipped(fmt.Sprintf("the page has more than %d bytes", int64(maxPage)))
	case body.broken != nil:
		return problem("the page is incomplete: "+body.broken.Error(), fix)
	case v.entry.header.Get("Content-Encoding") != "":
		return problem(fmt.Sprintf("with the content coding %s, although none was accepted", v.entry.header.Get("Content-Encoding")), fix)
	}
	if digest, ok := strings.CutPrefix(v.entry.header.Get("Repr-Digest"), "sha-256=:"); ok {
		if digest = strings.TrimSuffix(digest, ":"); digest != base64.StdEncoding.EncodeToString(body.sum[:]) {
			return problem("the page does not match its Repr-Digest", fix)
		}
		return fine(fmt.Sprintf("%d bytes, which match their digest", body.size))
	}
	return fine(fmt.Sprintf("%d bytes", body.size))
}

func (v *visit) links() (feed.Links, error) { return feed.ParseLinks(v.entry.url, v.entry.header) }

const linkFix = "have proxy and CDN forward the server's Link header unchanged; a bucket alone has none: put \"feedctl serve\" in front of it"

func (v *visit) checkLink(context.Context) result {
	links, err := v.links()
	switch {
	case err != nil:
		return problem(err.Error(), linkFix)
	case links.Self == "":
		return problem("the page has no self link", linkFix)
	case links.Prev == "":
		return fine("self")
	}
	return fine("self and prev")
}

func (v *visit) checkOrigin(context.Context) result {
	links, err := v.links()
	if err != nil || links.Self == "" {
		return skipped("the page has no links")
	}
	for _, link := range []string{links.Self, links.Prev, links.Next} {
		u, err := url.Parse(link)
		if err == nil && link != "" && (u.Scheme != v.feed.Scheme || u.Host != v.feed.Host) {
			return problem(fmt.Sprintf("links lead to %s://%s, the feed is at %s://%s", u.Scheme, u.Host, v.feed.Scheme, v.feed.Host),
				"start the server with --public-url, or have the proxy forward Host")
		}
	}
	return fine("all links are to the feed's origin")
}

const passFix = "have proxy and CDN forward it unchanged"

func (v *visit) checkLastModified(context.Context) result {
	text := v.entry.header.Get("Last-Modified")
	if text == "" {
		return problem("the page has none", passFix)
	}
	if _, err := feed.ParseTime(text); err != nil {
		return problem(fmt.Sprintf("%q is not a time", text), passFix)
	}
	return fine(text)
}

func (v *visit) checkHead(ctx context.Context) result {
	a, err := v.do(ctx, http.MethodHead, v.feed, fields{identity})
	if err != nil {
		return problem(err.Error(), "have the proxy forward HEAD requests")
	}
	if a.status != v.entry.status {
		return problem(fmt.Sprintf("the response to HEAD is %s, to GET %s", a.text(), v.entry.text()), "have the proxy forward HEAD requests")
	}
	for _, name := range []string{"Link", "Last-Modified", "Etag", "Content-Type"} {
		if got, want := a.header.Values(name), v.entry.header.Values(name); strings.Join(got, ", ") != strings.Join(want, ", ") {
			return problem(fmt.Sprintf("%s is %q in the response to HEAD, %q in that to GET", name, got, want),
				"have the proxy forward the server's response to HEAD unchanged")
		}
	}
	return fine("the same as to GET")
}
