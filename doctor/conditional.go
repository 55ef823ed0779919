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
		return warning("it is weak: "+etag, "something on the way rewrites the page, most often to compress it: let it leave multipart/mixed alone, the server compresses by itself")
	default:
		return fine(etag)
	}
}

func (v *visit) checkNotModified(ctx context.Context) result {
	if v.entry.etag() == "" {
		return skipped("there is no ETag to ask with")
	}
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{identity, {"If-None-Match", v.entry.etag()}})
	switch {
	case err != nil:
		return problem(err.Error(), "see the log of the proxy")
	case a.status == http.StatusNotModified:
		return fine("If-None-Match is answered with 304")
	case a.status == http.StatusOK:
		return warning("If-None-Match is answered with the whole page", "have the proxy pass If-None-Match on")
	}
	return problem("If-None-Match is answered with "+a.text(), "see the log of the proxy")
}

func (v *visit) checkRange(ctx context.Context) result {
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{identity, {"Range", "bytes=2-5"}})
	fix := "have the proxy pass Range on, and the server's answer as it is"
	switch {
	case err != nil:
		return problem(err.Error(), fix)
	case a.status == http.StatusOK:
		return warning("Range is answered with the whole page", fix)
	case a.status != http.StatusPartialContent:
		return problem("Range is answered with "+a.text(), fix)
	case len(v.entry.body.start) < 6 || !bytes.Equal(a.body.start, v.entry.body.start[2:6]):
		return problem("Range brings other bytes than those asked for", fix)
	case !strings.HasPrefix(a.header.Get("Content-Range"), "bytes 2-5/"):
		return problem(fmt.Sprintf("Range is answered with Content-Range: %q", a.header.Get("Content-Range")), fix)
	}
	return fine("Range is answered with the part asked for")
}

func (v *visit) checkCoding(ctx context.Context) result {
	a, err := v.do(ctx, http.MethodGet, v.feed, fields{{"Accept-Encoding", "gzip"}})
	fix := "let proxy and CDN leave multipart/mixed alone: the server compresses by itself, with an ETag and Vary that say so"
	switch {
	case err != nil:
		return problem(err.Error(), fix)
	case a.status != http.StatusOK:
		return problem("Accept-Encoding: gzip is answered with "+a.text(), fix)
	case a.err != nil:
		return problem(fmt.Sprintf("the coded page breaks after %d bytes: %v", a.body.size, a.err), fix)
	}
	coding := a.header.Get("Content-Encoding")
	changed := a.header.Get("Last-Modified") != v.entry.header.Get("Last-Modified")
	switch {
	case coding == "":
		return fine("the page comes as it is")
	case !strings.EqualFold(coding, "gzip"):
		return problem(fmt.Sprintf("the page comes with Content-Encoding: %s, which was not accepted", coding), fix)
	case a.body.sum != v.entry.body.sum && !changed:
		return problem("the page is another one with Content-Encoding: gzip", fix)
	case a.etag() == v.entry.etag() && a.etag() != "" && !strings.HasPrefix(a.etag(), "W/"):
		return problem("the page has the same strong ETag with and without Content-Encoding", fix)
	case !varies(a.header):
		return problem("the page has Content-Encoding: gzip but not Vary: Accept-Encoding", fix)
	}
	return fine("gzip, with an ETag of its own")
}

// varies reports whether a cache keeps codings apart.
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
