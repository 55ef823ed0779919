package layout

import (
	"strconv"
	"strings"
)

// A Resource is the result of parsing a URL path of a server.
type Resource struct {
	// Kind is "feed" for the entry point, "page", "page index", "timegate", "snapshot index",
	// "snapshot page" or "state digest".
	Kind string
	Name string // of the feed or snapshot
	Page int64  // the page number: from 1 in a feed, from 0 in a snapshot
}

// ParsePath parses a URL path of a server. It returns false if the path does not belong to a part of a
// feed, a snapshot or a state digest. The resource need not exist.
func ParsePath(path string) (Resource, bool) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(segments) < 2 || CheckName(segments[1]) != nil {
		return Resource{}, false
	}
	r := Resource{Name: segments[1]}
	switch rest := segments[2:]; segments[0] {
	case "feeds":
		r.Kind, r.Page = feedResource(rest)
	case "snapshots":
		switch {
		case len(rest) < 2:
			r.Kind = "snapshot index"
		case len(rest) == 3 && rest[1] == "pages":
			if n, err := strconv.ParseInt(rest[2], 10, 64); err == nil && n >= 0 {
				r.Kind, r.Page = "snapshot page", n
			}
		}
	case "digests":
		r.Kind = "state digest"
	}
	return r, r.Kind != ""
}

// feedResource returns the kind of a resource of a feed, and its page number or 0. The argument is the
// rest of the resource's path, after the path of the feed.
func feedResource(rest []string) (kind string, page int64) {
	switch {
	case len(rest) == 0:
		return "feed", 0
	case len(rest) == 1 && rest[0] == "at":
		return "timegate", 0
	case len(rest) == 2 && rest[0] == "index":
		return "page index", 0
	case len(rest) == 2 && rest[0] == "pages":
		if n, err := strconv.ParseInt(rest[1], 10, 64); err == nil && n > 0 {
			return "page", n
		}
	}
	return "", 0
}
