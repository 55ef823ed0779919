package verify

import "net/http"

// Config configures a check. The zero value is ready to use.
type Config struct {
	// HTTPClient makes the requests; nil means a client with the defaults of net/http.
	// A request fails if the header of its response takes longer than a minute, or any 64 KiB of
	// the body, or the rest of it.
	HTTPClient *http.Client
	// Credentials and Header go with every request to the origin (scheme, host
	// and port) of the URL that is checked, and to no other.
	Credentials Credentials
	Header      http.Header
	// AllowOrigins are further origins ("https://pages.example.com") that links and
	// redirects may lead to. They get neither Credentials nor Header.
	AllowOrigins []string
	// KeepState sets the report's State, which takes about 250 bytes and a URL for each page. Since
	// implies KeepState.
	KeepState bool
	// Since is the State of an earlier check; pages that have changed since are violations of
	// Changed. The State is not modified.
	Since *State
	// TempDir is the directory of temporary files, which take 32 bytes per entity and
	// about 200 bytes per page; empty means that of os.TempDir.
	TempDir string
	// MaxPages limits the number of pages that are checked, in case a server generates
	// links without end. 0 means 10,000,000.
	MaxPages int
	// MaxViolations limits how many violations are listed; the rest are counted. 0
	// means 10,000.
	MaxViolations int

	renamed *string // see Report
}

const (
	defaultMaxPages      = 10_000_000
	defaultMaxViolations = 10_000
)

// Credentials authenticate a client: by Basic authentication (RFC 7617) if there is a
// Username, or else by a Bearer token (RFC 6750) if there is one.
type Credentials struct {
	Username, Password string
	Bearer             string
}
