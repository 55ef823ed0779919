// Package stores opens stores of any kind by URL, such as "file:./data" or
// "s3://bucket/prefix". A program that uses only one kind can import its driver instead.
package stores

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
)

// Forms lists the forms of store URLs, for help and errors.
const Forms = "file:DIR, s3://BUCKET/PREFIX, postgres://USER@HOST/DATABASE?schema=feedctl, or memory: for a trial"

// Options configure how a store is opened.
type Options struct {
	// Create creates an empty store if there is none. Without Create, the error for a missing store
	// matches [storage.ErrNoStore].
	Create bool
	// Memory is the maximum size of the S3 driver's buffers, in bytes; see [s3.Config].
	Memory int64
}

// Registry returns a registry of all drivers.
func Registry(o Options) storage.Registry {
	r := storage.Registry{
		"file": file.Open, "memory": memory.Open, "postgres": postgres.Open,
		"s3": func(ctx context.Context, u *url.URL) (storage.Store, error) {
			config, err := s3.ParseURL(u)
			if err != nil {
				return nil, err
			}
			config.Memory = o.Memory
			return s3.Connect(ctx, config)
		},
	}
	if o.Create {
		r["file"], r["postgres"] = file.Create, postgres.Create
	}
	r["postgresql"] = r["postgres"]
	return r
}

// Open opens the store at a URL. Errors never contain passwords from the URL.
func Open(ctx context.Context, rawURL string, o Options) (storage.Store, error) {
	return Registry(o).Open(ctx, rawURL)
}

// IsURL reports whether text begins with the scheme of a store URL.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	_, known := Registry(Options{})[strings.ToLower(scheme)]
	return ok && known
}

// Check returns an error if the URL of a store is malformed. It does not access the store.
func Check(u *url.URL) error {
	var err error
	switch u.Scheme {
	case "file":
		_, err = file.ParseURL(u)
	case "s3":
		_, err = s3.ParseURL(u)
	case "memory":
		_, err = memory.Open(context.Background(), u)
	case "postgres", "postgresql":
		_, _, err = postgres.ParseURL(u)
	default:
		err = fmt.Errorf("unknown scheme %q: want %s", u.Scheme, Forms)
	}
	return err
}

// Directory returns the absolute path of the directory of a file store; ok is false if the URL is
// that of another kind of store.
func Directory(rawURL string) (dir string, ok bool) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", false
	}
	dir, err = file.ParseURL(u)
	if err != nil {
		return "", false
	}
	dir, err = filepath.Abs(dir)
	return dir, err == nil
}

// Identity returns a URL that identifies a store, independently of how it is accessed
// (working directory, region, endpoint, user). It returns nil if rawURL is not a URL.
func Identity(rawURL string) *url.URL {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	dir, isDir := Directory(rawURL)
	switch {
	case isDir:
		return &url.URL{Scheme: u.Scheme, Path: filepath.ToSlash(dir)}
	case strings.HasPrefix(u.Scheme, "postgres"):
		return database(u)
	case u.Host != "":
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	}
	return u
}

// database returns the URL of a schema of a database, without the user and the parameters
// of the connection.
func database(u *url.URL) *url.URL {
	query := u.Query()
	where := url.Values{"schema": {schema.Default}}
	for _, name := range []string{"host", "port", "dbname", "schema"} {
		if query.Has(name) {
			where.Set(name, query.Get(name))
		}
	}
	return &url.URL{Scheme: "postgres", Host: u.Host, Path: "/" + strings.Trim(u.Path, "/"), RawQuery: where.Encode()}
}
