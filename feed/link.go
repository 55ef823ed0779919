package feed

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tomnomnom/linkheader"
)

// Links are the links of a page that the specification knows, as absolute
// URLs; "" where there is none.
type Links struct {
	Self, Prev, Next string
}

// ParseLinks reads the Link headers (RFC 8288) of a page whose URL is base.
// Relations are compared without regard to case; one link may have several.
// Links with other relations, and links that say that they are about something
// else (anchor), are passed over. A link with one of our relations that is no
// HTTP URL, or two that differ, are a [*HeaderError].
func ParseLinks(base *url.URL, h http.Header) (Links, error) {
	var links Links
	for _, value := range h.Values("Link") {
		for _, link := range linkheader.Parse(hideSeparators(value)) {
			if err := links.add(base, link); err != nil {
				return Links{}, &HeaderError{Part: -1, Name: "Link", Value: value, Err: err}
			}
		}
	}
	return links, nil
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
		return "", fmt.Errorf("%q is no HTTP URL", u)
	}
	u.Fragment, u.RawFragment = "", "" // never sent to a server
	return u.String(), nil
}

// Header returns the values of the Link headers, one for each link.
func (l Links) Header() []string {
	var values []string
	for _, link := range [...]struct{ url, rel string }{{l.Self, "self"}, {l.Prev, "prev"}, {l.Next, "next"}} {
		if link.url != "" {
			values = append(values, "<"+link.url+`>; rel="`+link.rel+`"`)
		}
	}
	return values
}

// Package linkheader splits at every comma and semicolon, also inside <> and
// quotes, where they belong to the text. These two stand for them there;
// neither can be in a header.
const hiddenComma, hiddenSemicolon = '\x00', '\x01'

// hideSeparators hides commas and semicolons that separate nothing, and makes
// the white space that separates spaces only.
func hideSeparators(value string) string {
	b := []byte(value)
	var inside byte // the character that ends what we are in, or 0
	for i, c := range b {
		switch {
		case c == inside:
			inside = 0
		case inside != 0 && c == ',':
			b[i] = hiddenComma
		case inside != 0 && c == ';':
			b[i] = hiddenSemicolon
		case inside == 0 && c == '<':
			inside = '>'
		case inside == 0 && c == '"':
			inside = '"'
		case inside == 0 && c == '\t':
			b[i] = ' '
		}
	}
	return string(b)
}

func showSeparators(text string) string {
	return strings.NewReplacer(string(hiddenComma), ",", string(hiddenSemicolon), ";").Replace(text)
}
