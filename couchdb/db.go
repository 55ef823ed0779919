package couchdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/roundtrip"
)

// A DB is a database. Its methods may be called concurrently.
type DB struct {
	config  Config
	client  *roundtrip.Client
	base    string // URL of the database, without credentials, query or final slash
	root    string // URL of the server, also without credentials
	name    string
	session *session
}

// Open returns a DB, or an error if c is invalid. It makes no request.
func Open(c Config) (*DB, error) {
	db := &DB{config: c}
	u, err := db.setURL()
	if err == nil {
		err = db.setName(u)
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := db.prepare(u); err != nil {
		return nil, fmt.Errorf("open database %s: %w", db.base, err)
	}
	return db, nil
}

// prepare checks the configuration other than the URL, sets the defaults, and makes the client.
func (db *DB) prepare(u *url.URL) (err error) {
	c := &db.config
	if err := c.Auth.check(); err != nil {
		return err
	}
	c.MaxWhole = cmp.Or(max(c.MaxWhole, 0), 1<<20)
	c.Limits = cmp.Or(c.Limits, new(Limits))
	db.session = &session{mu: make(chan struct{}, 1)}
	db.client, err = roundtrip.New(roundtrip.Client{
		Origin: origins.Of(u), Username: c.Auth.Username, Password: c.Auth.Password, Limits: &c.Limits.limiter,
		HTTP: c.HTTP, HeaderTimeout: c.HeaderTimeout, IdleTimeout: c.IdleTimeout, Attempts: c.Attempts, Log: c.Log,
	})
	return err
}

// setURL parses the configured URL and takes credentials from it. Its errors do not quote the URL,
// which may contain a password.
func (db *DB) setURL() (*url.URL, error) {
	u, err := url.Parse(db.config.URL)
	if err != nil {
		return nil, errors.New("malformed URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("the URL of %q must begin with http:// or https:// and a host", path.Base(u.EscapedPath()))
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of %s on %s has a query or a fragment", path.Base(u.EscapedPath()), u.Host)
	}
	if a := &db.config.Auth; u.User != nil && a.Username == "" && a.Token == nil && a.Proxy == nil {
		a.Username = u.User.Username()
		a.Password, _ = u.User.Password()
	}
	db.root = u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	db.base = db.root
	return u, nil
}

// setName takes the last segment of the URL for the name of the database.
func (db *DB) setName(u *url.URL) (err error) {
	p := strings.TrimRight(u.EscapedPath(), "/")
	slash := strings.LastIndexByte(p, '/')
	name := p[slash+1:]
	if name == "" {
		return fmt.Errorf("the URL of %s has no database name", u.Host)
	}
	db.root = u.Scheme + "://" + u.Host + p[:max(slash, 0)]
	db.name, err = url.PathUnescape(name)
	return err
}

// URL returns the URL of the database, without credentials.
func (db *DB) URL() string { return db.base }

// Name returns the name of the database.
func (db *DB) Name() string { return db.name }

// Logger returns the logger of the client's configuration, or one that discards all output.
func (db *DB) Logger() *slog.Logger { return db.client.Log }

// MaxWhole returns the size in bytes up to which documents are held in memory.
func (db *DB) MaxWhole() int { return db.config.MaxWhole }

// SpoolDir returns the directory for temporary files from the client's configuration.
func (db *DB) SpoolDir() string { return db.config.SpoolDir }

// CloseIdleConnections closes connections that are not in use.
func (db *DB) CloseIdleConnections() { db.client.HTTP.CloseIdleConnections() }

// JSON makes a request and decodes its response, of at most 64 MiB, into v, which may be nil. If the
// response is missing or truncated, the request is repeated.
func (db *DB) JSON(ctx context.Context, q Request, v any) error {
	return db.repeat(ctx, &q, func() error {
		resp, err := db.trySession(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return roundtrip.JSON(resp.Body, v, func(err error) error { return db.malformed(q, err) })
	})
}

// Server describes a server. It is the response to GET /.
type Server struct {
	Version string `json:"version"`
	UUID    string `json:"uuid"` // may be empty; nodes of a cluster may differ
	Vendor  struct {
		Name string `json:"name"`
	} `json:"vendor"`
}

// Server returns the server's description of itself.
func (db *DB) Server(ctx context.Context) (Server, error) {
	var s Server
	err := db.JSON(ctx, Request{Path: "/"}, &s)
	return s, err
}

// Info describes a database. It is the response to GET /db.
type Info struct {
	Name string `json:"db_name"`
	// UpdateSeq is the sequence at the end of the changes feed: opaque JSON, as sent by the server.
	UpdateSeq json.RawMessage `json:"update_seq"`
	// InstanceStartTime is the value sent by the server; see [Info.Instance].
	InstanceStartTime string `json:"instance_start_time"`
	// Count is the number of documents that are not deleted; nil if the server does not report it.
	Count *int64 `json:"doc_count"`
	// Cluster holds the numbers of shards and replicas. Only Cloudant and CouchDB from 2.0 on send
	// it.
	Cluster json.RawMessage `json:"cluster"`
}

// Instance distinguishes the database from others of the same name, such as one created after the
// database was deleted. It is empty if the server does not identify instances: the instance start
// time is "0" in CouchDB before 3.3, and in PouchDB Server the time when its process was started.
func (i Info) Instance() string {
	if i.InstanceStartTime == "0" || len(i.Cluster) == 0 {
		return ""
	}
	return i.InstanceStartTime
}

// Copies returns how many nodes have a copy of each part of the database, or 0 if the server does not
// report it. The sequences of the nodes differ, and UpdateSeq is from the nodes that answered first.
func (i Info) Copies() int {
	var cluster struct{ N int }
	if json.Unmarshal(i.Cluster, &cluster) != nil {
		return 0
	}
	return cluster.N
}

// Info returns information about the database. The error matches ErrNotFound
// if there is no such database.
func (db *DB) Info(ctx context.Context) (Info, error) {
	var i Info
	err := db.JSON(ctx, Request{}, &i)
	if err == nil && len(i.UpdateSeq) == 0 {
		err = fmt.Errorf("GET %s: %w: no update_seq: is it the URL of a database?", db.base, ErrMalformed)
	}
	return i, err
}

// Exists checks that the database exists, with a HEAD request as in the protocol ("Verify Peers").
// The error matches ErrNotFound if there is no such database.
func (db *DB) Exists(ctx context.Context) error {
	return db.JSON(ctx, Request{Method: http.MethodHead}, nil)
}

// Create creates the database. The error matches ErrPreconditionFailed if it exists.
func (db *DB) Create(ctx context.Context) error {
	return db.JSON(ctx, Request{Method: http.MethodPut}, nil)
}

// EnsureFullCommit makes the server write everything to disk (protocol, "Ensure In Commit") and
// returns the database's instance start time. Servers that do not support the request have nothing to
// flush; for these, EnsureFullCommit returns "" and no error.
func (db *DB) EnsureFullCommit(ctx context.Context) (string, error) {
	var answer struct {
		InstanceStartTime string `json:"instance_start_time"`
	}
	q := JSONRequest(http.MethodPost, "_ensure_full_commit", nil)
	q.Repeat = true
	err := db.JSON(ctx, q, &answer)
	var e *Error
	if errors.As(err, &e) && e.unsupported() {
		return "", nil
	}
	return answer.InstanceStartTime, err
}

// Local reads the document _local/name into v. The error matches ErrNotFound if it does not exist.
func (db *DB) Local(ctx context.Context, name string, v any) error {
	return db.JSON(ctx, Request{Path: DocPath("_local/" + name)}, v)
}

// PutLocal writes the document _local/name and returns its new revision. doc is encoded as JSON, and
// must have the _rev of the stored document. If the _rev differs, PouchDB and CouchDB 1 return an
// error that matches ErrConflict, and CouchDB from 2.0 on overwrites the document.
func (db *DB) PutLocal(ctx context.Context, name string, doc any) (rev string, err error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("encode _local/%s: %w", name, err)
	}
	var answer struct {
		Rev string `json:"rev"`
	}
	err = db.JSON(ctx, JSONRequest(http.MethodPut, DocPath("_local/"+name), body), &answer)
	return answer.Rev, err
}
