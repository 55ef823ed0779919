package feed

import (
	"fmt"
	"strings"

	"github.com/tomnomnom/linkheader"
)

// ows is the white space that may stand between the parts of a header (RFC 9110,
// section 5.6.3).
const ows = " \t"

// A linkValue is one element of a Link header (RFC 8288, section 3).
type linkValue struct {
	target    string
	bracketed bool   // the target stands in angle brackets
	rel       string // the first parameter rel; later ones do not count
	anchored  bool   // there is a parameter anchor: the link is about something else
}

// Package linkheader splits at every comma and semicolon, also inside <> and
// quotes, where they belong to the text. These two stand for them there;
// neither can be in a header.
const hiddenComma, hiddenSemicolon = "\x00", "\x01"

var (
	hideSeparators = strings.NewReplacer(",", hiddenComma, ";", hiddenSemicolon).Replace
	showSeparators = strings.NewReplacer(hiddenComma, ",", hiddenSemicolon, ";").Replace
)

// plainLinks puts a Link header into the form that package linkheader can split: with
// brackets, no white space around "=", no escapes, one rel, and nothing that does not
// matter here.
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
			link.target = "#" // the base, as "" is, which linkheader drops
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

// cutLink cuts the first link, up to and with its comma, off s. It reads as
// appendix B.2 of RFC 8288 says, and a target without brackets besides.
func cutLink(s string) (link linkValue, rest string, err error) {
	s = strings.TrimLeft(s, ows)
	if inside, ok := strings.CutPrefix(s, "<"); ok {
		link.bracketed = true
		if link.target, s, ok = strings.Cut(inside, ">"); !ok {
			return linkValue{}, "", fmt.Errorf("%w: there is no > after <%.200s", ErrInvalidHeader, inside)
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

// bareEnd returns where a target without brackets ends: at a semicolon, or at a
// comma after which another link may begin. Other commas belong to the URL.
func bareEnd(s string) int {
	for i := range len(s) {
		switch {
		case s[i] == ';', s[i] == ',' && (i+1 == len(s) || strings.IndexByte(ows+"<,", s[i+1]) >= 0):
			return i
		}
	}
	return len(s)
}

// cutLinkParam cuts the first parameter off s, and leaves the separator after it.
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
		value, rest = cutQuoted(quoted)
		return name, value, rest
	}
	end = strings.IndexAny(s, ";,")
	if end < 0 {
		end = len(s)
	}
	return name, strings.TrimRight(s[:end], ows), s[end:]
}

// cutQuoted cuts a quoted string (RFC 9110, section 5.6.4), whose opening quote
// is gone already, off s and undoes its escapes.
func cutQuoted(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i+1 < len(s) {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
