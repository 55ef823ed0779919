package doctor

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
)

func (v *visit) checkETag(context.Context) result {
	switch etag := v.entry.etag(); {
	case etag == "":
		return problem("the page has none", passFix)
	case strings.HasPrefix(etag, "W/"):
		return warning("it is weak: "+etag, "something in between rewrites the page, probably to compress it: exclude multipart/mixed, which the server compresses itself")
	default:
		return fine(etag)
	}
}

func (v *visit) checkNotModified(ctx context.Context) result {
	if v.entry.etag() == "" {
		return skipped("there is no ETag to send")
	}
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{identity, {"If-None-Match", v.entry.etag()}})
	switch {
	case err != nil:
		return problem(err.Error(), "check the log of the proxy")
	case a.status == http.StatusNotModified:
		return fine("the response to If-None-Match is 304")
	case a.status == http.StatusOK:
		return warning("the response to If-None-Match is the whole page", "have the proxy forward If-None-Match")
	}
	return problem("the response to If-None-Match is "+a.text(), "check the log of the proxy")
}

func (v *visit) checkRange(ctx context.Context) result {
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{identity, {"Range", "bytes=2-5"}})
	fix := "have the proxy forward Range, and the response unchanged"
	switch {
	case err != nil:
		return problem(err.Error(), fix)
	case a.status == http.StatusOK:
		return warning("the response to Range is the whole page", fix)
	case a.status != http.StatusPartialContent:
		return problem("the response to Range is "+a.text(), fix)
	case len(v.entry.body.start) < 6 || !bytes.Equal(a.body.start, v.entry.body.start[2:6]):
		return problem("the response to Range has bytes other than those requested", fix)
	case !strings.HasPrefix(a.header.Get("Content-Range"), "bytes 2-5/"):
		return problem(fmt.Sprintf("the response to Range has Content-Range: %q", a.header.Get("Content-Range")), fix)
	}
	return fine("the response to Range is the requested part")
}

func (v *visit) checkCoding(ctx context.Context) result {
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{{"Accept-Encoding", "gzip"}})
	fix := "have proxy and CDN exclude multipart/mixed, which the server compresses itself, with the right ETag and Vary"
	switch {
	case err != nil:
		return problem(err.Error(), fix)
	case a.status != http.StatusOK:
		return problem("the response to Accept-Encoding: gzip is "+a.text(), fix)
	case a.err != nil:
		return problem(fmt.Sprintf("the transfer of the compressed page fails after %d bytes: %v", a.body.size, a.err), fix)
	}
	coding := a.header.Get("Content-Encoding")
	changed := a.header.Get("Last-Modified") != v.entry.header.Get("Last-Modified")
	switch {
	case coding == "":
		return fine("the page is not compressed")
	case !strings.EqualFold(coding, "gzip"):
		return problem(fmt.Sprintf("the page has Content-Encoding: %s, which was not requested", coding), fix)
	case a.body.sum != v.entry.body.sum && !changed:
		return problem("the page has different content with Content-Encoding: gzip", fix)
	case a.etag() == v.entry.etag() && a.etag() != "" && !strings.HasPrefix(a.etag(), "W/"):
		return problem("the page has the same strong ETag with and without Content-Encoding", fix)
	case !varies(a.header):
		return problem("the page has Content-Encoding: gzip but not Vary: Accept-Encoding", fix)
	}
	return fine("gzip, with a different ETag")
}

// varies reports whether Vary makes caches keep content codings apart.
func varies(h http.Header) bool {
	for _, line := range h.Values("Vary") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Accept-Encoding") {
				return true
			}
		}
	}
	return false
}
