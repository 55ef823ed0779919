package represent

import (
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/httpfield"
)

// Precondition evaluates the conditions of a GET or HEAD in the order of RFC
// 9110, section 13.2.2. It returns the status 304 or 412, or 0 if the request is to be answered as if it had no
// conditions.
func Precondition(r *http.Request, rep *Representation, etag string) int {
	h := r.Header
	if header := h.Values("If-Match"); len(header) > 0 {
		if !httpfield.MatchesETag(header, etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if since, err := feed.ParseTime(h.Get("If-Unmodified-Since")); err == nil && rep.Modified.After(since) {
		return http.StatusPreconditionFailed
	}
	if header := h.Values("If-None-Match"); len(header) > 0 {
		if httpfield.MatchesETag(header, etag, true) {
			return http.StatusNotModified
		}
	} else if since, err := feed.ParseTime(h.Get("If-Modified-Since")); err == nil && !rep.modifiedAfter(since) {
		return http.StatusNotModified
	}
	return 0
}

// rangeHolds evaluates If-Range (RFC 9110, section 13.1.5): it reports whether
// the part that the client has belongs to this representation.
func rangeHolds(r *http.Request, rep *Representation, etag string) bool {
	condition := r.Header.Get("If-Range")
	if condition == "" {
		return true
	}
	if strings.HasPrefix(condition, `"`) || strings.HasPrefix(condition, "W/") {
		return condition == etag
	}
	since, err := feed.ParseTime(condition)
	return err == nil && since.Equal(rep.Modified) && !rep.Changing
}
