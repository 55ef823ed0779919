package represent

import (
	"net/http"
	"strings"
)

// Coding returns the content coding in which a request is answered, or "" for none. ok is false if the
// request accepts neither a coding nor a response without one.
func Coding(r *http.Request) (coding string, ok bool) {
	return acceptedCoding(r.Header.Values("Accept-Encoding"))
}

// qualities reads a list of weighted values, as in Accept and Accept-Encoding
// (RFC 9110, section 12.4.2), and returns the weight of each value in thousandths, by the value in lower case.
// Malformed elements are skipped; the first of equal values counts.
func qualities(header []string) map[string]int {
	weights := make(map[string]int)
	for _, line := range header {
		for element := range strings.SplitSeq(line, ",") {
			value, params, _ := strings.Cut(element, ";")
			value = strings.ToLower(strings.TrimSpace(value))
			weight, ok := quality(params)
			if _, twice := weights[value]; value == "" || !ok || twice {
				continue
			}
			weights[value] = weight
		}
	}
	return weights
}

// quality returns the value of the parameter q, or 1000 if there is no q.
func quality(params string) (thousandths int, ok bool) {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return parseQuality(strings.TrimSpace(value))
		}
	}
	return 1000, true
}

// parseQuality parses a qvalue: 0 or 1, with up to three digits after the point.
func parseQuality(s string) (thousandths int, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(fraction) > 3 {
		return 0, false
	}
	for _, digit := range (fraction + "000")[:3] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		thousandths = thousandths*10 + int(digit-'0')
	}
	thousandths += 1000 * int(whole[0]-'0')
	return thousandths, thousandths <= 1000
}

// acceptedCoding returns the content coding to send for an Accept-Encoding
// header (RFC 9110, section 12.5.3): "zstd", "gzip", or "" for identity. ok is
// false if the client accepts none of these. If the client has no preference, zstd comes before gzip.
func acceptedCoding(header []string) (coding string, ok bool) {
	weights := qualities(header)
	weightOf := func(name string, otherwise int) int {
		if w, ok := weights[name]; ok {
			return w
		}
		if w, ok := weights["*"]; ok {
			return w
		}
		return otherwise
	}
	// Identity is acceptable unless excluded, but least preferred.
	best := weightOf("identity", 1)
	if _, named := weights["identity"]; !named {
		best = min(best, 1)
	}
	ok = best > 0
	for _, name := range []string{codingGzip, codingZstd} {
		if w := weightOf(name, 0); w > 0 && w >= best {
			best, coding, ok = w, name, true
		}
	}
	return coding, ok
}

// PrefersHTML reports whether an Accept header puts text/html before application/json, as browsers do.
func PrefersHTML(header []string) bool {
	weights := qualities(header)
	html, ok := weights["text/html"]
	return ok && html > weights["application/json"]
}

// identityRefused reports whether an Accept-Encoding header excludes an uncoded
// response.
func identityRefused(header []string) bool {
	weights := qualities(header)
	w, ok := weights["identity"]
	if !ok {
		w, ok = weights["*"]
	}
	return ok && w == 0
}
