package verify

import "net/http"

// Config configures a check. The zero value is ready to use.
type Config struct {
	// HTTPClient makes the requests; nil means a client with the defaults of net/http.
	// A request fails if the header of its response, any 64 KiB of the body, or the rest of the
	// body takes longer than a minute.
	HTTPClient *http.Client
	// Credentials and Header are sent with every request to the origin (scheme, host and port) of
	// the URL that is checked, and to no other origin.
	Credentials Credentials
	Header      http.Header
	// AllowOrigins are further origins ("https://pages.example.com") to which links and redirects
	// may lead. Neither Credentials nor Header is sent to them.
	AllowOrigins []string
	// KeepState makes the check set the report's State, which takes about 250 bytes and a URL for
	// each page. Since implies KeepState.
	KeepState bool
	// Since is the State of an earlier check; if a page has changed in the meantime, that is a
	// violation of [Changed]. The State is not modified.
	Since *State
	// TempDir is the directory for temporary files, which take 32 bytes per entity and about 200
	// bytes per page; the default is os.TempDir.
	TempDir string
	// MaxPages is the maximum number of pages that are checked, since a server may generate links
	// without end. 0 means 10,000,000.
	MaxPages int
	// MaxViolations is the maximum number of violations that are listed; the others are only
	// counted. 0 means 10,000.
	MaxViolations int

	renamed *string // see Report
}

const (
	defaultMaxPages      = 10_000_000
	defaultMaxViolations = 10_000
)

// Credentials authenticate a client: by Basic authentication (RFC 7617) if Username is set, or by a
// Bearer token (RFC 6750) if only Bearer is set.
type Credentials struct {
	Username, Password string
	Bearer             string
}
