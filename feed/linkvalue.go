package feed

import (
	"fmt"
	"strings"

	"github.com/tomnomnom/linkheader"

	"github.com/feedctl/feedctl/internal/httpfield"
)

// ows is the optional white space of RFC 9110, section 5.6.3.
const ows = " \t"

// A linkValue is one element of a Link header (RFC 8288, section 3).
type linkValue struct {
	target    string
	bracketed bool   // the target is in angle brackets
	rel       string // the first rel parameter; later ones are ignored (RFC 8288, section 3.3)
	anchored  bool   // there is an anchor parameter, so the link has another context
}

// Package linkheader splits at every comma and semicolon, even inside <> and
// quotes. These placeholders replace them there; neither can occur in a header.
const hiddenComma, hiddenSemicolon = "\x00", "\x01"

var (
	hideSeparators = strings.NewReplacer(",", hiddenComma, ";", hiddenSemicolon).Replace
	showSeparators = strings.NewReplacer(hiddenComma, ",", hiddenSemicolon, ";").Replace
)

// plainLinks rewrites a Link header into a form that package linkheader can split. In this form,
// targets are in brackets, and there are no spaces around "=", no escapes, no repeated rel
// parameters, and no parameters that are not used here.
func plainLinks(value string) (string, error) {
	var plain linkheader.Links
	for value != "" {
		link, rest, err := cutLink(value)
		if err != nil {
			return "", err
		}
		value = rest
		if link.target == "" {
			if !link.bracketed {
				continue // an empty element of the list
			}
			link.target = "#" // resolves to the base, as "" does, but linkheader drops ""
		}
		p := linkheader.Link{URL: hideSeparators(link.target), Rel: hideSeparators(strings.ReplaceAll(link.rel, `"`, ""))}
		if link.anchored {
			p.Params = map[string]string{"anchor": ""}
		}
		plain = append(plain, p)
	}
	if plain == nil {
		return "", nil
	}
	return plain.String(), nil
}

// cutLink splits s after the first link and its comma. It follows appendix B.2 of RFC 8288, but
// also accepts a target without brackets.
func cutLink(s string) (link linkValue, rest string, err error) {
	s = strings.TrimLeft(s, ows)
	if inside, ok := strings.CutPrefix(s, "<"); ok {
		link.bracketed = true
		if link.target, s, ok = strings.Cut(inside, ">"); !ok {
			return linkValue{}, "", fmt.Errorf("%w: missing > after <%.200s", ErrInvalidHeader, inside)
		}
	} else {
		end := bareEnd(s)
		link.target, s = strings.TrimRight(s[:end], ows), s[end:]
	}
	hasRel := false
	for {
		params, ok := strings.CutPrefix(strings.TrimLeft(s, ows), ";")
		if !ok {
			break
		}
		var name, value string
		name, value, s = cutLinkParam(params)
		switch {
		case strings.EqualFold(name, "anchor"):
			link.anchored = true
		case strings.EqualFold(name, "rel") && !hasRel:
			link.rel, hasRel = value, true
		}
	}
	_, rest, _ = strings.Cut(s, ",")
	return link, rest, nil
}

// bareEnd returns the length of a target without brackets, which ends at a semicolon or
// at a comma after which another link may begin. Other commas belong to the URL.
func bareEnd(s string) int {
	for i := range len(s) {
		switch {
		case s[i] == ';', s[i] == ',' && (i+1 == len(s) || strings.IndexByte(ows+"<,", s[i+1]) >= 0):
			return i
		}
	}
	return len(s)
}

// cutLinkParam splits s after the first parameter. The separator that follows remains in rest.
func cutLinkParam(s string) (name, value, rest string) {
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		end = len(s)
	}
	name, s = strings.Trim(s[:end], ows), s[end:]
	s, ok := strings.CutPrefix(s, "=")
	if !ok {
		return name, "", s
	}
	s = strings.TrimLeft(s, ows)
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		value, rest = httpfield.CutQuoted(quoted)
		return name, value, rest
	}
	end = strings.IndexAny(s, ";,")
	if end < 0 {
		end = len(s)
	}
	return name, strings.TrimRight(s[:end], ows), s[end:]
}
