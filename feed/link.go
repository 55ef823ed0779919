package feed

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tomnomnom/linkheader"
)

// Links are the links of a page that the specification defines, as absolute
// URLs. A missing link is "".
type Links struct {
	Self, Prev, Next string
}

// ParseLinks parses the Link headers (RFC 8288) of a page whose URL is base.
// Relation types are case-insensitive; one link may have several. A target without
// angle brackets, as in the specification's example, is accepted. Links with other
// relation types and links with another context (anchor) are ignored. The error is
// a [*HeaderError] if a target is not an HTTP URL, if two targets of one relation
// differ, or if the closing bracket of a target is missing.
func ParseLinks(base *url.URL, h http.Header) (Links, error) {
	var links Links
	for _, value := range h.Values("Link") {
		if err := links.read(base, value); err != nil {
			return Links{}, &HeaderError{Part: -1, Name: "Link", Value: value, Err: err}
		}
	}
	return links, nil
}

// read parses one Link header.
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
		target := l.relation(rel)
		if target == nil {
			continue
		}
		resolved, err := resolve(base, showSeparators(link.URL))
		if err != nil {
			return fmt.Errorf("%w: rel %q: %w", ErrInvalidHeader, rel, err)
		}
		if *target != "" && *target != resolved {
			return fmt.Errorf("%w: two links with rel %q: %s and %s", ErrInvalidHeader, rel, *target, resolved)
		}
		*target = resolved
	}
	return nil
}

// relation returns the member for a relation type, or nil if there is none.
func (l *Links) relation(rel string) *string {
	switch strings.ToLower(rel) {
	case "self":
		return &l.Self
	case "prev":
		return &l.Prev
	case "next":
		return &l.Next
	}
	return nil
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
	u.Fragment, u.RawFragment = "", "" // never sent to a server
	return u.String(), nil
}

// Header returns the values of the Link headers, one for each link.
func (l Links) Header() []string {
	var values []string
	for _, link := range [...]struct{ url, rel string }{{l.Self, "self"}, {l.Prev, "prev"}, {l.Next, "next"}} {
		if link.url != "" {
			values = append(values, linkheader.Link{URL: link.url, Rel: link.rel}.String())
		}
	}
	return values
}
