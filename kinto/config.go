package kinto

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Config configures a [Server]. Only URL is required.
type Config struct {
	// URL is the URL of the server, with its API version, or of a bucket or collection on it:
	// "https://kinto.example.com/v1/buckets/blog/collections/articles". A user name and password in the
	// URL are used if Auth is empty.
	URL string
	// Auth holds the credentials.
	Auth Auth
	// Header holds fields to add to each request. They replace fields that the client sets itself, and
	// are sent only to the origin of the server.
	Header http.Header
	// HTTP makes the requests. Its Timeout must be 0, because a time limit would cut off lists.
	// Redirects to another origin are not followed. nil means a client with a new transport that verifies
	// TLS certificates and takes the proxy from the environment.
	HTTP *http.Client
	// Limits holds back requests while the server asks its clients to wait. All clients of a process should
	// share one Limits. nil means a new one for this client only.
	Limits *Limits
	// MaxRecord is the size in bytes up to which a record is held in memory. A larger record is
	// reported without its bytes ([Row]). Zero means 8 MiB.
	MaxRecord int
	// HeaderTimeout limits the wait for the header of a response. Zero means 1 min.
	HeaderTimeout time.Duration
	// IdleTimeout limits the wait for the next byte of a response body. Zero means 1 min.
	IdleTimeout time.Duration
	// Attempts is how many times a repeatable request is tried. Zero means 6. The pauses between attempts are
	// 0.25 s, 0.5 s and so on up to 30 s.
	Attempts int
	// Log receives retries with their causes, and alerts. nil means that they are not logged.
	Log *slog.Logger
}

// Auth holds credentials: none, a user name with a password, or a bearer token.
type Auth struct {
	// Username and Password are sent with each request (RFC 7617).
	Username, Password string
	// Token returns the bearer token (RFC 6750), such as an OpenID Connect token. It is called before
	// each attempt of a request, so it may read the token from a file that is updated.
	Token func(context.Context) (string, error)
}
