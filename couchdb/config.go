package couchdb

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Config configures a [DB]. Only URL is required.
type Config struct {
	// URL of the database: "https://couch.example.com/name". A user name and password in it are
	// used if Auth has none. A "/" in the name must be written as "%2F".
	URL string
	// Auth holds the credentials.
	Auth Auth
	// Header is added to each request, replacing fields that the client
	// sets itself. It is sent only to the origin of the database.
	Header http.Header
	// HTTP makes the requests. Its Timeout must be 0, because it would cut off streams. Redirects
	// to another origin are not followed. nil means a client with a new transport that verifies TLS
	// certificates and takes the proxy from the environment.
	HTTP *http.Client
	// Limits slows down requests to hosts that ask for it. All clients of a process should share one Limits.
	// nil means that the client has its own.
	Limits *Limits
	// MaxWhole is the size in bytes up to which a document, a part of a response
	// or a row is held in memory. Zero means 1 MiB.
	MaxWhole int
	// SpoolDir is the directory for temporary files with larger documents, parts or rows. Empty: [os.TempDir].
	SpoolDir string
	// HeaderTimeout is how long to wait for the header of a response, counted from when the last byte of the
	// request body was read for sending. Zero means 1 min, because a busy CouchDB may take that long.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a read of a response body may wait for the next byte.
	// Zero means 1 min. See also [Request.IdleTimeout].
	IdleTimeout time.Duration
	// Attempts is how many times a repeatable request is tried. Zero means 6. The pauses between
	// attempts are 0.25 s, 0.5 s and so on up to 30 s.
	Attempts int
	// Log logs retries and their causes. nil means no logging.
	Log *slog.Logger
}

// Auth holds credentials, if any, for one of these methods: basic authentication (Username and Password), a
// session (the same, with Session), a bearer token (Token), or proxy authentication (Proxy).
type Auth struct {
	// Username and Password are sent with each request (RFC 7617), or to
	// _session if Session is set.
	Username, Password string
	// Session logs in for a cookie, and again whenever it has expired (CouchDB
	// documentation, "Cookie Authentication"). This is cheaper for the server than checking a password with
	// each request.
	Session bool
	// Token returns the bearer token (RFC 6750), such as a JWT (CouchDB
	// documentation, "JWT Authentication"). It is called before each attempt of a
	// request, so it may read a file that is renewed.
	Token func(context.Context) (string, error)
	// Proxy is for servers that trust a proxy to authenticate users.
	Proxy *ProxyAuth
}

// ProxyAuth is CouchDB's proxy authentication (documentation, "Proxy Authentication").
type ProxyAuth struct {
	Username string
	Roles    []string
	// Secret is the server's [chttpd_auth] secret. Empty: no token is sent, as
	// for a server with proxy_use_secret = false.
	Secret string
	// SHA256 signs with SHA-256 instead of SHA-1. Every version accepts SHA-1
	// unless hash_algorithms was changed.
	SHA256 bool
}
