package main

import (
	"net/url"
	"strings"
)

// parseURL checks a URL of the command line. Credentials in it are refused: a
// command line is for all users of the machine to see.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, usagef("URL %q cannot be parsed", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, usagef("URL %q must begin with http:// or https://", u.Redacted())
	case u.User != nil:
		return nil, &usageError{&hinted{
			err:  usagef("URL %q has credentials in it, for all users of this machine to see", u.Redacted()),
			hint: "--credentials-file FILE, or the variable FEEDCTL_CREDENTIALS, with a line \"basic USER:PASSWORD\" or \"bearer TOKEN\"",
		}}
	case u.Host == "":
		return nil, usagef("URL %q has no host", raw)
	case u.Fragment != "":
		return nil, usagef("URL %q has a fragment", raw)
	}
	return u, nil
}

// isURL tells a URL from the name of a feed in the store.
func isURL(arg string) bool { return strings.Contains(arg, "/") || strings.Contains(arg, ":") }
