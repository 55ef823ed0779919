// Package stores opens a store of any kind by its URL, such as "file:./data" or
// "s3://bucket/prefix". A program that uses one kind needs only the package of its driver.
package stores

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/postgres/schema"
	"github.com/feedctl/feedctl/storage/s3"
)

// Forms is how the URLs of stores are written, for help and errors.
const Forms = "file:DIR, s3://BUCKET/PREFIX, postgres://USER@HOST/DATABASE?schema=feedctl, or memory: for a trial"

// Options say how to open a store.
type Options struct {
	// Create makes an empty store where there is none. Without it the error is
	// [storage.ErrNoStore].
	Create bool
	// Memory limits the bytes that the S3 driver holds in buffers: see [s3.Config].
	Memory int64
}

// Registry returns the drivers.
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

// Open opens the store at a URL. Passwords in it do not show in errors.
func Open(ctx context.Context, rawURL string, o Options) (storage.Store, error) {
	return Registry(o).Open(ctx, rawURL)
}

// IsURL reports whether text begins as the URL of a store, rather than of a server.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	_, known := Registry(Options{})[strings.ToLower(scheme)]
	return ok && known
}

// Check returns what is wrong with the URL of a store, whatever there is.
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

// Directory returns the directory of a store that is one, as an absolute path.
func Directory(rawURL string) (string, bool) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", false
	}
	dir, err := file.ParseURL(u)
	if err != nil {
		return "", false
	}
	dir, err = filepath.Abs(dir)
	return dir, err == nil
}

// Identity returns a URL that says where a store is, and not how it is reached (working
// directory, region, endpoint, user), by which to recognize it again; nil for text that is no
// URL.
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

// database returns the URL of the schema of a database without what says how, and
// as which user, it is reached.
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
