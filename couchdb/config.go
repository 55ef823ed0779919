package couchdb

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Config says which database to use, and how. Only URL is needed.
type Config struct {
	// URL of the database: "https://couch.example.com/name". A user name and
	// password in it are used if Auth has none. A "/" in the name must be
	// written as "%2F".
	URL string
	// Auth is what the requests are authorized with.
	Auth Auth
	// Header is added to each request, and replaces fields that the client
	// sets itself. It is sent to the database's origin only.
	Header http.Header
	// HTTP makes the requests. nil: one with a transport of its own, which
	// verifies TLS certificates and takes a proxy from the environment. Its
	// Timeout must be 0, because it would cut streams; it follows no redirect
	// to another origin.
	HTTP *http.Client
	// Limits slows down requests to hosts that ask for it. Give the same one to
	// all clients of a process. nil: one for this client only.
	Limits *Limits
	// MaxWhole is the size in bytes up to which a document, an answer's part or
	// a row is held in memory. 0: 1 MiB.
	MaxWhole int
	// SpoolDir is where larger ones are kept in the meantime. Empty: the
	// system's directory for temporary files.
	SpoolDir string
	// HeaderTimeout is how long a request may take until its answer begins, counted
	// from when its body has been sent, or no more of it is taken. 0: 1 min, since
	// a busy CouchDB may take as long.
	HeaderTimeout time.Duration
	// IdleTimeout is how long an answer may bring no byte while it is waited
	// for. 0: 1 min. See also [Request.IdleTimeout].
	IdleTimeout time.Duration
	// Attempts is how often a request is tried that may be repeated. 0: 6, with
	// pauses of 0.25 s, 0.5 s and so on up to 30 s between them.
	Attempts int
	// Log gets what is repeated, and why. nil: nothing.
	Log *slog.Logger
}

// Auth is what requests are authorized with: nothing, or one of basic
// authentication (a user name and password), a session (the same, with
// Session), a bearer token, and proxy authentication.
type Auth struct {
	// Username and Password are sent with each request (RFC 7617), or to
	// _session if Session is set.
	Username, Password string
	// Session logs in once for a cookie, which is cheaper for the server than
	// to check a password with each request, and again when the session has
	// expired (CouchDB documentation, "Cookie Authentication").
	Session bool
	// Token returns the bearer token (RFC 6750), such as a JWT (CouchDB
	// documentation, "JWT Authentication"). It is asked before each try of a
	// request, so it may read a file that is renewed.
	Token func(context.Context) (string, error)
	// Proxy is for servers that trust another one to know the user.
	Proxy *ProxyAuth
}

// ProxyAuth is CouchDB's proxy authentication (documentation, "Proxy
// Authentication").
type ProxyAuth struct {
	Username string
	Roles    []string
	// Secret is the server's [chttpd_auth] secret. Empty: no token is sent, as
	// for a server with proxy_use_secret = false.
	Secret string
	// SHA256 signs with SHA-256 instead of SHA-1, which every version takes
	// unless hash_algorithms was changed.
	SHA256 bool
}
