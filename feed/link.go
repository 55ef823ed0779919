package feed

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tomnomnom/linkheader"
)

// Links holds the links of a page, as absolute URLs. A missing link is "".
type Links struct {
	// Self, Prev and Next are the links that the specification defines.
	Self, Prev, Next string
	// First leads to the oldest page of the feed, and Last to its entry point (RFC 8288).
	// Timegate leads to the page of a given time (RFC 7089). They are not part of the
	// specification; readers work without them.
	First, Last, Timegate string
	// DescribedBy leads to the newest state digest of the feed (see package digest), which need not
	// exist. The relation is not part of the specification, but it is registered.
	DescribedBy string
	// Timemap leads to a tile of the page index (see package pageindex). The relation is not part of
	// the specification, but it is registered (RFC 7089, section 2.2.3).
	Timemap string
}

// ParseLinks parses the Link headers (RFC 8288) of a page whose URL is base.
// Relation types are case-insensitive; one link may have several. A target without
// angle brackets, as in the specification's example, is accepted. Links with other relation types, and
// links from another context (with an anchor parameter), are ignored. The error is a [*HeaderError] if
// the closing bracket of a target is missing, or if a target of self, prev or next is not an HTTP URL
// or differs from another target of the same relation. For other relations, such targets are ignored.
func ParseLinks(base *url.URL, h http.Header) (Links, error) {
	var links Links
	for _, value := range h.Values("Link") {
		if err := links.read(base, value); err != nil {
			return Links{}, &HeaderError{Part: -1, Name: "Link", Value: value, Err: err}
		}
	}
	return links, nil
}

// read parses one Link header, and adds its links to l.
func (l *Links) read(base *url.URL, value string) error {
	plain, err := plainLinks(value)
	if err != nil {
		return err
	}
	for _, link := range linkheader.Parse(plain) {
		if err := l.add(base, link); err != nil {
			return err
		}
	}
	return nil
}

func (l *Links) add(base *url.URL, link linkheader.Link) error {
	if link.HasParam("anchor") {
		return nil
	}
	for rel := range strings.FieldsSeq(link.Rel) {
		target, specified := l.relation(rel)
		if target == nil {
			continue
		}
		resolved, err := resolve(base, showSeparators(link.URL))
		switch {
		case err == nil && (*target == "" || *target == resolved):
			*target = resolved
		case !specified:
			// Such a link is ignored, since the page can be read without it.
		case err != nil:
			return fmt.Errorf("%w: rel %q: %w", ErrInvalidHeader, rel, err)
		default:
			return fmt.Errorf("%w: two links with rel %q: %s and %s", ErrInvalidHeader, rel, *target, resolved)
		}
	}
	return nil
}

// relation returns the field of l for a relation type, or nil if there is none, and reports whether
// the specification defines the relation.
func (l *Links) relation(rel string) (target *string, specified bool) {
	switch strings.ToLower(rel) {
	case "self":
		return &l.Self, true
	case "prev":
		return &l.Prev, true
	case "next":
		return &l.Next, true
	case "first":
		return &l.First, false
	case "last":
		return &l.Last, false
	case "timegate":
		return &l.Timegate, false
	case "describedby":
		return &l.DescribedBy, false
	case "timemap":
		return &l.Timemap, false
	}
	return nil, false
}

func resolve(base *url.URL, reference string) (string, error) {
	u, err := url.Parse(reference)
	if err != nil {
		return "", err
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is not an HTTP URL", u)
	}
	u.Fragment, u.RawFragment = "", "" // a fragment is never sent to a server
	return u.String(), nil
}

// Header returns the values of the Link headers, one for each link.
func (l Links) Header() []string {
	var values []string
	for _, link := range [...]struct{ url, rel string }{
		{l.Self, "self"}, {l.Prev, "prev"}, {l.Next, "next"},
		{l.First, "first"}, {l.Last, "last"}, {l.Timegate, "timegate"}, {l.DescribedBy, "describedby"},
	} {
		if link.url != "" {
			values = append(values, linkheader.Link{URL: link.url, Rel: link.rel}.String())
		}
	}
	if l.Timemap != "" {
		values = append(values, "<"+l.Timemap+`>; rel="timemap"; type="application/json"`)
	}
	return values
}
