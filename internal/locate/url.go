// Package locate finds the feed or snapshot that a command-line argument names, at a URL on a server or in a store.
// It also waits for stores and sinks whose server is not available.
package locate

import (
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage/postgres"
)

// ParseURL parses the URL of a server. Credentials in it are refused, because other users of the
// machine can see command lines.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case !IsWeb(raw):
		return nil, exit.Usagef("URL %q must begin with http:// or https://", sink.Redact(raw))
	case err != nil: // err may contain a password
		return nil, exit.Usagef("URL %q cannot be parsed", sink.Redact(raw))
	case u.User != nil:
		return nil, exit.WithHint(
			exit.Usagef("URL %q contains credentials, which other users of this machine can see", sink.Redact(raw)),
			"--credentials-file FILE, or the variable FEEDCTL_CREDENTIALS, with a line \"basic USER:PASSWORD\" or \"bearer TOKEN\"",
		)
	case u.Host == "":
		return nil, exit.Usagef("URL %q has no host", sink.Redact(raw))
	case u.Fragment != "":
		return nil, exit.Usagef("URL %q has a fragment (\"#%s\"): remove it", sink.Redact(raw), u.Fragment)
	}
	return u, nil
}

// IsWeb reports whether text begins like the URL of a web server. The case of the scheme does not
// matter (RFC 3986, section 3.1).
func IsWeb(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// IsURL reports whether arg is a URL rather than the name of a feed.
func IsURL(arg string) bool { return strings.ContainsAny(arg, "/:") }

// ParseDatabase parses the URL of a schema in a PostgreSQL database, the value of a flag or argument
// called name.
func ParseDatabase(name, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil { // err may contain a password
		return nil, exit.Usagef("%s is not a URL: write %% / ? # @ within a password as %%25 %%2F %%3F %%23 %%40", name)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, exit.Usagef("%s is not postgres://USER@HOST/DATABASE?schema=feedctl: its scheme is %q", name, u.Scheme)
	}
	if _, _, err := postgres.ParseURL(u); err != nil {
		return nil, exit.Usagef("%s: %w", name, err)
	}
	return u, nil
}
