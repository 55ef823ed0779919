package main

import (
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/sink"
)

// parseURL checks a URL of the command line. Credentials in it are refused: a
// command line is for all users of the machine to see.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case !isWeb(raw):
		return nil, exit.Usagef("URL %q must begin with http:// or https://", sink.Redact(raw))
	case err != nil: // which may name a password
		return nil, exit.Usagef("URL %q cannot be parsed", sink.Redact(raw))
	case u.User != nil:
		return nil, exit.WithHint(
			exit.Usagef("URL %q has credentials in it, for all users of this machine to see", sink.Redact(raw)),
			"--credentials-file FILE, or the variable FEEDCTL_CREDENTIALS, with a line \"basic USER:PASSWORD\" or \"bearer TOKEN\"",
		)
	case u.Host == "":
		return nil, exit.Usagef("URL %q has no host", sink.Redact(raw))
	case u.Fragment != "":
		return nil, exit.Usagef("URL %q has a fragment (\"#%s\"): leave it out", sink.Redact(raw), u.Fragment)
	}
	return u, nil
}

// isWeb reports whether text begins as the URL of a web server does. The case of a scheme does
// not count (RFC 3986, section 3.1).
func isWeb(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// isURL tells a URL from the name of a feed in the store.
func isURL(arg string) bool { return strings.Contains(arg, "/") || strings.Contains(arg, ":") }
