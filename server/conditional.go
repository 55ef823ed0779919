package server

import (
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// matchesETag reports whether a list of entity tags, as in If-Match and
// If-None-Match, has the tag, or is "*". A weak comparison ignores "W/"; a strong
// one never matches a weak tag (RFC 9110, section 8.8.3.2).
func matchesETag(header []string, etag string, weak bool) bool {
	for _, line := range header {
		for {
			line = strings.TrimLeft(line, " \t,")
			if line == "" {
				break
			}
			if line[0] == '*' {
				return true
			}
			isWeak := strings.HasPrefix(line, "W/")
			line = strings.TrimPrefix(line, "W/")
			if line == "" || line[0] != '"' {
				break // malformed
			}
			end := strings.IndexByte(line[1:], '"') + 2
			if end < 2 {
				break
			}
			if line[:end] == etag && (weak || !isWeak) {
				return true
			}
			line = line[end:]
		}
	}
	return false
}

// precondition evaluates the conditions of a GET or HEAD in the order of RFC
// 9110, section 13.2.2. It returns 304, 412, or 0 to answer the request as if it
// had none.
func precondition(r *http.Request, rep *representation, etag string) int {
	h := r.Header
	if header := h.Values("If-Match"); len(header) > 0 {
		if !matchesETag(header, etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if since, err := feed.ParseTime(h.Get("If-Unmodified-Since")); err == nil && rep.modified.After(since) {
		return http.StatusPreconditionFailed
	}
	if header := h.Values("If-None-Match"); len(header) > 0 {
		if matchesETag(header, etag, true) {
			return http.StatusNotModified
		}
	} else if since, err := feed.ParseTime(h.Get("If-Modified-Since")); err == nil && !rep.modifiedAfter(since) {
		return http.StatusNotModified
	}
	return 0
}

// rangeHolds evaluates If-Range (RFC 9110, section 13.1.5): it reports whether
// the part that the client has is of this representation.
func rangeHolds(r *http.Request, rep *representation, etag string) bool {
	condition := r.Header.Get("If-Range")
	if condition == "" {
		return true
	}
	if strings.HasPrefix(condition, `"`) || strings.HasPrefix(condition, "W/") {
		return condition == etag
	}
	since, err := feed.ParseTime(condition)
	return err == nil && since.Equal(rep.modified) && !rep.changing
}
