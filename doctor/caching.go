package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// directives returns the directives of Cache-Control, in lower case.
func directives(h http.Header) map[string]string {
	all := make(map[string]string)
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			all[strings.ToLower(name)] = strings.Trim(value, `"`)
		}
	}
	return all
}

const cacheFix = "have the CDN respect the server's Cache-Control, which is no-cache for the newest page: set no minimum or default TTL"

func (v *visit) checkCache(ctx context.Context) result {
	control := directives(v.entry.header)
	_, noCache := control["no-cache"]
	_, noStore := control["no-store"]
	switch age := v.entry.header.Get("Age"); {
	case seconds(age) > 0:
		return problem(fmt.Sprintf("the newest page is from a cache, %s seconds old", age), cacheFix)
	case !noCache && !noStore && control["max-age"] != "0":
		return problem(fmt.Sprintf("the newest page has Cache-Control: %q", strings.Join(v.entry.header.Values("Cache-Control"), ", ")), cacheFix)
	}
	// A cache does not always identify itself. Request the page in a way that bypasses caches, and then as consumers
	// do: the second response must not be older.
	past := *v.feed
	past.RawQuery = strings.TrimPrefix(past.RawQuery+"&feedctl-doctor="+rand.Text(), "&")
	fresh, err := v.do(ctx, http.MethodGet, &past, fields{identity, {"Cache-Control", "no-cache"}})
	if err != nil || fresh.status != http.StatusOK {
		return fine("Cache-Control requires revalidation") // the server may reject the query
	}
	usual, err := v.get(ctx, v.feed)
	if err != nil || usual.status != http.StatusOK {
		return skipped("the newest page could not be requested again")
	}
	for _, name := range []string{"Last-Modified", "Date"} {
		if lag, ok := behind(usual.header, fresh.header, name); ok && lag > 2*time.Second {
			return problem(fmt.Sprintf("the newest page is from a cache that does not say so: its %s is %v behind the server's", name, lag), cacheFix)
		}
	}
	return fine("the newest page comes from the server")
}

// behind returns how much older a time in one header is than in another.
func behind(usual, fresh http.Header, name string) (time.Duration, bool) {
	a, err := http.ParseTime(usual.Get(name))
	if err != nil {
		return 0, false
	}
	b, err := http.ParseTime(fresh.Get(name))
	return b.Sub(a), err == nil
}

func (v *visit) checkImmutable(ctx context.Context) result {
	links, err := v.links()
	if err != nil || links.Prev == "" {
		return skipped("the feed has only one page")
	}
	prev, err := url.Parse(links.Prev)
	if err != nil || prev.Host != v.feed.Host || prev.Scheme != v.feed.Scheme {
		return skipped("the previous page is at another origin")
	}
	a, err := v.do(ctx, http.MethodHead, prev, fields{identity})
	if err != nil || a.status != http.StatusOK {
		return skipped("the page before the newest could not be requested")
	}
	control := strings.Join(a.header.Values("Cache-Control"), ", ")
	_, immutable := directives(a.header)["immutable"]
	if !immutable {
		return warning(fmt.Sprintf("a page that has a next link has Cache-Control: %q", control),
			"have proxy and CDN respect the server's Cache-Control, which is immutable for all pages but the newest")
	}
	return fine(control)
}
