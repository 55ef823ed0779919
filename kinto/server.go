package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/roundtrip"
)

// A Server is a Kinto server. Its methods may be called concurrently.
type Server struct {
	config Config
	client *roundtrip.Client
	root   string   // URL of the server with its version, without credentials, query and final slash
	alerts sync.Map // the alerts that have been logged
}

// An Address is the result of parsing the URL of a server, a bucket or a collection.
type Address struct {
	Root       string // URL of the server with its version, without credentials and final slash
	Bucket     string // empty: the server
	Collection string // empty if the URL is that of a bucket or server
}

// ParseURL splits the URL of a server, a bucket, a collection, or the records of a collection. Names
// are decoded.
func ParseURL(address string) (Address, error) {
	u, err := parse(address)
	if err != nil {
		return Address{}, err
	}
	return split(u)
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the URL is invalid") // the error of url.Parse contains the password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL of a Kinto server begins with http:// or https://, not %q", u.Scheme)
	case u.Host == "":
		return nil, errors.New("the URL has no host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of %s must have no query and no fragment", u.Host)
	}
	return u, nil
}

func split(u *url.URL) (a Address, err error) {
	path := strings.TrimRight(u.EscapedPath(), "/")
	root, below, _ := strings.Cut(path, "/buckets/")
	a.Root = u.Scheme + "://" + u.Host + root
	if below == "" {
		return a, nil
	}
	parts := strings.Split(below, "/")
	if a.Bucket, err = url.PathUnescape(parts[0]); err != nil {
		return a, err
	}
	if n := len(parts); n == 1 || n == 2 && parts[1] == "collections" {
		return a, nil
	}
	if n := len(parts); parts[1] != "collections" || n > 4 || n == 4 && parts[3] != "records" {
		return a, notCollection(u)
	}
	a.Collection, err = url.PathUnescape(parts[2])
	return a, err
}

// notCollection returns the error for a URL that is not the URL of a collection.
func notCollection(u *url.URL) error {
	bare := *u
	bare.User = nil
	return fmt.Errorf("%s is not the URL of a collection: want one that ends with /buckets/BUCKET/collections/COLLECTION", &bare)
}

// OpenServer returns the server of the URL c.URL, or an error if c is invalid. It makes no request.
func OpenServer(c Config) (*Server, error) {
	s, _, err := open(c)
	return s, err
}

// Open returns the collection with the URL c.URL, or an error if c is invalid. It makes no request.
func Open(c Config) (*Collection, error) {
	s, a, err := open(c)
	if err != nil {
		return nil, err
	}
	if u, err := parse(c.URL); err == nil && a.Collection == "" {
		return nil, fmt.Errorf("open collection: %w", notCollection(u))
	}
	return s.Collection(a.Bucket, a.Collection), nil
}

func open(c Config) (*Server, Address, error) {
	u, err := parse(c.URL)
	if err != nil {
		return nil, Address{}, fmt.Errorf("open Kinto server: %w", err)
	}
	a, err := split(u)
	if err != nil {
		return nil, a, fmt.Errorf("open Kinto server: %w", err)
	}
	s := &Server{config: c, root: a.Root}
	if password, ok := u.User.Password(); c.Auth.Username == "" && c.Auth.Password == "" && c.Auth.Token == nil && (ok || u.User.Username() != "") {
		s.config.Auth = Auth{Username: u.User.Username(), Password: password}
	}
	if err := s.connect(origins.Of(u)); err != nil {
		return nil, a, fmt.Errorf("open Kinto server %s: %w", s.root, err)
	}
	return s, a, nil
}

// connect checks the rest of the configuration, sets defaults, and creates the client.
func (s *Server) connect(origin string) (err error) {
	c := &s.config
	if (c.Auth.Username != "" || c.Auth.Password != "") && c.Auth.Token != nil {
		return errors.New("authorize: give only one of a user name and a token")
	}
	c.MaxRecord = cmp.Or(max(c.MaxRecord, 0), 8<<20)
	c.Limits = cmp.Or(c.Limits, new(Limits))
	s.client, err = roundtrip.New(roundtrip.Client{
		Origin: origin, Username: c.Auth.Username, Password: c.Auth.Password, Limits: &c.Limits.limiter,
		HTTP: c.HTTP, HeaderTimeout: c.HeaderTimeout, IdleTimeout: c.IdleTimeout, Attempts: c.Attempts, Log: c.Log,
	})
	return err
}

// URL returns the URL of the server with its version, without credentials and final slash.
func (s *Server) URL() string { return s.root }

// CloseIdleConnections closes connections that are not in use.
func (s *Server) CloseIdleConnections() { s.client.HTTP.CloseIdleConnections() }

// Collection returns a collection of the server. It makes no request.
func (s *Server) Collection(bucket, name string) *Collection {
	return &Collection{server: s, bucket: bucket, name: name, path: "/buckets/" + url.PathEscape(bucket) + "/collections/" + url.PathEscape(name)}
}

// Root is a server's description of itself, from the response to GET /v1/ (Kinto API documentation,
// "Utility endpoints").
type Root struct {
	Version    string `json:"project_version"`
	APIVersion string `json:"http_api_version"`
	Settings   struct {
		BatchMaxRequests int  `json:"batch_max_requests"` // 0: no limit
		ReadOnly         bool `json:"readonly"`
	} `json:"settings"`
	User struct {
		ID         string   `json:"id"` // empty if the server does not accept the credentials
		Principals []string `json:"principals"`
		Bucket     string   `json:"bucket"` // the id of the bucket named "default"
	} `json:"user"`
	Capabilities struct {
		Attachments *struct {
			BaseURL string `json:"base_url"`
		} `json:"attachments"`
		Changes       *struct{} `json:"changes"`
		DefaultBucket *struct{} `json:"default_bucket"`
		Flush         *struct{} `json:"flush_endpoint"`
	} `json:"capabilities"`
}

// Root returns the server's description of itself.
func (s *Server) Root(ctx context.Context) (Root, error) {
	var r Root
	q := Request{Path: "/"}
	_, err := s.JSON(ctx, q, &r)
	if err == nil && r.APIVersion == "" {
		err = s.malformed(q, errors.New("no http_api_version: is it the URL of a Kinto server, with its version, such as /v1?"))
	}
	return r, err
}

// Collections returns the names, in order, of those collections of a bucket that the user can read.
func (s *Server) Collections(ctx context.Context, bucket string) ([]string, error) {
	var names []string
	q := Request{Path: "/buckets/" + url.PathEscape(bucket) + "/collections", Query: url.Values{"_sort": {"id"}, "_fields": {"id"}}}
	for {
		page, err := s.list(ctx, q, func(r Row) error {
			names = append(names, r.ID)
			return nil
		})
		if err != nil || page.Next == "" {
			return names, err
		}
		q.Query.Set("_token", page.Next)
	}
}

// Attachment opens an attachment. The location, from the attachment's record, is a URL, or a path below
// base, the base_url of the server's capability. The caller must close the body. Credentials are sent
// only to the origin of the server. The error matches [ErrNotFound] if there is no such file.
func (s *Server) Attachment(ctx context.Context, base, location string) (io.ReadCloser, error) {
	address := location
	if u, err := url.Parse(location); err != nil || !u.IsAbs() {
		if base == "" {
			return nil, fmt.Errorf("open attachment %s: the server has no base_url for attachments", location)
		}
		address = strings.TrimRight(base, "/") + "/" + strings.TrimLeft(location, "/")
	}
	resp, err := s.Do(ctx, Request{absolute: address, Header: http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}}})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
