package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/storage"
)

// Config configures a store. Bucket is required; the zero values of the other fields stand for
// their defaults.
type Config struct {
	Bucket string
	// The names of all objects of the store begin with Prefix and a "/". Prefix, which does not
	// include the "/", is a valid key of package storage, of at most 400 bytes.
	Prefix string
	// Region is the region of the bucket. The default is the region of the AWS configuration or, if
	// there is none and Endpoint is set, us-east-1.
	Region string
	// Endpoint is the http or https URL of a server other than AWS.
	Endpoint string
	// PathStyle puts the bucket in the path of URLs instead of the host.
	PathStyle bool

	// SSE is the kind of server-side encryption, and KMSKeyID is the key for "aws:kms".
	// StorageClass and ACL are set for every object. The values are those of the S3 API.
	SSE, KMSKeyID, StorageClass, ACL string

	// Transport, if set, wraps the HTTP transport, for tests, benchmarks and proxies.
	Transport func(http.RoundTripper) http.RoundTripper

	// Attempts is the maximum number of attempts of a request, by default 8.
	Attempts int
	// Backoff is the longest wait before the second attempt, by default 50 ms.
	// The longest wait doubles with each attempt, up to a hundred times Backoff. The actual wait is
	// random, between half of the longest wait and all of it.
	Backoff time.Duration
	// Stall is how long a connection may make no progress in either direction,
	// by default 20 seconds. With the default, a commit with a time limit of a minute can be
	// retried after a connection was lost unnoticed. There is no limit for a whole request.
	Stall time.Duration

	// PartSize is the size in bytes from which objects are uploaded in parts, and the size of each
	// part unless there would be too many parts; by default 16 MiB. S3 requires at least 5 MiB. An
	// append to an object that is too large to be read whole always uses a multipart upload.
	PartSize int64
	// Memory is the maximum number of bytes in buffers, by default 64 MiB. As long as it suffices,
	// objects of up to a sixteenth of Memory are read whole and verified before any byte is
	// returned. An additional quarter of Memory caches recently written objects, so that an append
	// need not read them.
	Memory int64
}

const (
	defaultAttempts = 8
	defaultBackoff  = 50 * time.Millisecond
	defaultStall    = 20 * time.Second
	defaultPartSize = 16 << 20
	defaultMemory   = 64 << 20

	// maxPrefix is the maximum length of a prefix. It leaves room for a key, or for the name of one
	// of the driver's own objects, within S3's limit of 1024 bytes.
	maxPrefix = 400
)

// parameters holds the names of the parameters of a store URL, each with a function that sets its
// value.
var parameters = map[string]func(*Config, string) error{
	"region":        func(c *Config, v string) error { c.Region = v; return nil },
	"endpoint":      func(c *Config, v string) error { c.Endpoint = v; return nil },
	"sse":           func(c *Config, v string) error { c.SSE = v; return nil },
	"kms_key_id":    func(c *Config, v string) error { c.KMSKeyID = v; return nil },
	"storage_class": func(c *Config, v string) error { c.StorageClass = v; return nil },
	"acl":           func(c *Config, v string) error { c.ACL = v; return nil },
	"path_style": func(c *Config, v string) (err error) {
		if c.PathStyle, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q, want true or false", v)
		}
		return nil
	},
}

// Open opens the store at a URL in the form described by [ParseURL]. It is a
// [storage.Opener].
func Open(ctx context.Context, u *url.URL) (storage.Store, error) {
	config, err := ParseURL(u)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, config)
}

// ParseURL parses a URL of the form
//
//	s3://BUCKET/PREFIX?region=&endpoint=&path_style=&sse=&kms_key_id=&storage_class=&acl=
//
// All parameters are optional. path_style defaults to true unless the endpoint belongs to AWS,
// since few other servers have a host name for each bucket. The URL must not contain credentials.
func ParseURL(u *url.URL) (Config, error) {
	switch {
	case u.Scheme != "s3":
		return Config{}, fmt.Errorf("open URL with scheme %q: want s3://BUCKET/PREFIX", u.Scheme)
	case u.User != nil:
		return Config{}, errors.New("open URL with credentials: leave them out, and set AWS_ACCESS_KEY_ID and" +
			" AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or use the role of the machine")
	case u.Opaque != "" || u.Host == "":
		return Config{}, errors.New("open URL without bucket: want s3://BUCKET/PREFIX")
	case u.Port() != "":
		return Config{}, fmt.Errorf("open URL with port %s: name the server with endpoint=http://HOST:PORT", u.Port())
	case u.Fragment != "":
		return Config{}, fmt.Errorf("open URL with fragment %q: want s3://BUCKET/PREFIX", u.Fragment)
	}
	c := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, fmt.Errorf("read parameters of URL: %w", err)
	}
	if endpoint := query.Get("endpoint"); endpoint != "" {
		c.PathStyle = !isAWS(endpoint)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		set, ok := parameters[name]
		switch values := query[name]; {
		case !ok:
			return Config{}, fmt.Errorf("open URL with unknown parameter %q: the known ones are %s%s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", "),
				suggest.DidYouMean(name, slices.Sorted(maps.Keys(parameters)), ""))
		case len(values) > 1:
			return Config{}, fmt.Errorf("open URL with parameter %s twice", name)
		case values[0] == "":
			return Config{}, fmt.Errorf("open URL with empty parameter %s: leave it out", name)
		default:
			if err := set(&c, values[0]); err != nil {
				return Config{}, fmt.Errorf("open URL: parameter %s: %w", name, err)
			}
		}
	}
	return c, c.check()
}

func isAWS(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".amazonaws.com") || strings.HasSuffix(u.Hostname(), ".amazonaws.com.cn"))
}

func (c *Config) check() error {
	if c.Bucket == "" {
		return errors.New("open store without bucket")
	}
	if c.Prefix != "" {
		if err := storage.CheckKey(c.Prefix); err != nil {
			return fmt.Errorf("check prefix: %w", err)
		}
		if len(c.Prefix) > maxPrefix {
			return fmt.Errorf("check prefix: %d bytes, more than %d", len(c.Prefix), maxPrefix)
		}
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		switch {
		case err != nil:
			return errors.New("check endpoint: not a URL")
		case u.User != nil:
			return errors.New("check endpoint: leave the credentials out of it")
		case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
			return fmt.Errorf("check endpoint: %q, want http://HOST:PORT or https://HOST:PORT", c.Endpoint)
		}
	}
	if c.PartSize > 0 && c.PartSize < minPart {
		return fmt.Errorf("check size of parts: %d bytes, S3 wants at least %d", c.PartSize, minPart)
	}
	if c.KMSKeyID != "" && !strings.HasPrefix(c.SSE, "aws:kms") {
		return errors.New("check kms_key_id: it needs sse=aws:kms")
	}
	return errors.Join(
		oneOf("sse", types.ServerSideEncryption(c.SSE)),
		oneOf("storage_class", types.StorageClass(c.StorageClass)),
		oneOf("acl", types.ObjectCannedACL(c.ACL)),
	)
}

// oneOf checks that a value is empty or one of those that the API defines.
func oneOf[T interface {
	~string
	Values() []T
}](name string, value T) error {
	if value == "" || slices.Contains(value.Values(), value) {
		return nil
	}
	return fmt.Errorf("check %s: %q, want one of %v", name, value, value.Values())
}

// withDefaults replaces zero values with the defaults.
func (c Config) withDefaults() Config {
	set := func(value *int64, def int64) {
		if *value <= 0 {
			*value = def
		}
	}
	set(&c.PartSize, defaultPartSize)
	set(&c.Memory, defaultMemory)
	set((*int64)(&c.Backoff), int64(defaultBackoff))
	set((*int64)(&c.Stall), int64(defaultStall))
	if c.Attempts <= 0 {
		c.Attempts = defaultAttempts
	}
	return c
}
