package verify

import "net/http"

// Config says how to check. The zero value is fit for use.
type Config struct {
	// HTTPClient makes the requests; nil for one with the defaults of net/http.
	// A request whose header takes longer than a minute is given up, and one whose
	// body takes longer than that for 64 KiB or what is left.
	HTTPClient *http.Client
	// Credentials and Header go with every request to the origin (scheme, host
	// and port) of the URL that is checked, and to no other.
	Credentials Credentials
	Header      http.Header
	// AllowOrigins are further origins ("https://pages.example.com") that links and
	// redirects may lead to. They get neither Credentials nor Header.
	AllowOrigins []string
	// KeepState asks for the report's State, which takes some 250 bytes and a URL for
	// each page. So does Since.
	KeepState bool
	// Since is the state of an earlier visit: it makes the check find pages that
	// have changed since. It is not written to.
	Since *State
	// TempDir is where temporary files are made, of 32 bytes an entity and some 200
	// bytes a page; empty for the system's usual place.
	TempDir string
	// MaxPages is how many pages are checked at most: links that are made up for each
	// request never end. 0 means 10,000,000.
	MaxPages int
	// MaxViolations is how many violations are listed; 0 means 10,000. Others
	// are only counted.
	MaxViolations int

	renamed *string // see Report
}

const (
	defaultMaxPages      = 10_000_000
	defaultMaxViolations = 10_000
)

// Credentials authenticate a client: by Basic authentication (RFC 7617) if
// there is a Username, else by a Bearer token (RFC 6750) if there is one.
type Credentials struct {
	Username, Password string
	Bearer             string
}
