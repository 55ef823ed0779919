package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/storage"
)

// A Store is a prefix in a bucket. It implements [storage.Store],
// [storage.Locator], [storage.Clock], [storage.Sweeper], [storage.Presigner],
// [storage.Counter], [storage.Prober] and [storage.Namer].
type Store struct {
	config      Config
	client      *s3.Client
	transport   *http.Transport // nil if the caller passed the client to New
	credentials aws.CredentialsProvider
	authorized  atomic.Bool // credentials have been available
	answered    atomic.Bool // an S3 server has responded
	whole       int64       // objects of up to this size, in bytes, are read whole
	buffers     *semaphore.Weighted
	memory      memory
	bodies      *bodyCache
	requests    requests
	clock       clock
	probe       probeState
}

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Clock     = (*Store)(nil)
	_ storage.Sweeper   = (*Store)(nil)
	_ storage.Prober    = (*Store)(nil)
	_ storage.Presigner = (*Store)(nil)
	_ storage.Counter   = (*Store)(nil)
)

// New returns a store that uses the given client, with its credentials, region, endpoint and HTTP
// client; Region, Endpoint, Transport and Stall of config are ignored. The store retries requests
// and computes checksums itself. New sends no request.
func New(client *s3.Client, config Config) (*Store, error) {
	options := client.Options()
	config.Region, config.Endpoint = options.Region, aws.ToString(options.BaseEndpoint)
	s, err := newStore(config)
	if err != nil {
		return nil, err
	}
	if options.Credentials == nil {
		return nil, fmt.Errorf("%w: the client has no credentials", storage.ErrPermission)
	}
	s.credentials = options.Credentials
	s.client = s3.New(options, s.adapt)
	return s, nil
}

// Connect returns a store with a client of its own. Credentials, the region unless configured, and
// certificates to trust in addition to the system's (AWS_CA_BUNDLE) come from the default
// sources of the AWS SDK: the environment, the shared configuration files, and the machine's
// role. Connect sends no request to the bucket.
func Connect(ctx context.Context, config Config) (*Store, error) {
	s, err := newStore(config)
	if err != nil {
		return nil, err
	}
	config = s.config
	s.transport = newTransport(config.Stall)
	chain, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("read AWS configuration: %w", err)
	}
	region := firstOf(config.Region, chain.Region)
	if region == "" {
		if config.Endpoint == "" && chain.BaseEndpoint == nil {
			return nil, errors.New("open store without region: add region= to the URL, or set AWS_REGION")
		}
		region = "us-east-1"
	}
	if chain.Credentials == nil {
		return nil, fmt.Errorf("%w: no credentials; %s", storage.ErrPermission, credentialsAdvice)
	}
	s.credentials = chain.Credentials
	if client, ok := chain.HTTPClient.(*awshttp.BuildableClient); ok { // which has read AWS_CA_BUNDLE
		s.transport.TLSClientConfig = client.GetTransport().TLSClientConfig
	}
	var transport http.RoundTripper = s.transport
	if config.Transport != nil {
		transport = config.Transport(transport)
	}
	s.client = s3.NewFromConfig(chain, func(o *s3.Options) {
		o.Region = region
		o.UsePathStyle = config.PathStyle
		if config.Endpoint != "" {
			o.BaseEndpoint = aws.String(config.Endpoint)
		}
		o.HTTPClient = &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}, s.adapt)
	return s, nil
}

func newStore(config Config) (*Store, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Store{
		config:  config,
		whole:   config.Memory / 16,
		buffers: semaphore.NewWeighted(config.Memory),
		bodies:  newBodyCache(config.Memory / 4),
		probe:   probeState{turn: make(chan struct{}, 1)},
	}, nil
}

// adapt sets the options of a client on which the protocol of the store depends.
func (s *Store) adapt(o *s3.Options) {
	// The driver retries by itself: after an attempt with an unknown outcome, it first reads the
	// object.
	o.Retryer = aws.NopRetryer{}
	// The payload hash in the signature protects writes, and the record protects reads. Not every
	// server supports other checksums.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.ContinueHeaderThresholdBytes = -1 // do not wait for 100 Continue: a commit is one round trip
	o.Logger = logging.Nop{}
	o.APIOptions = append(o.APIOptions, s.observe)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Remote implements [storage.Locator].
func (s *Store) Remote() bool { return true }

// Close closes idle connections, unless the client was passed to New.
func (s *Store) Close() error {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

// object returns the name in the bucket for a key.
func (s *Store) object(key string) *string {
	if s.config.Prefix == "" {
		return &key
	}
	return aws.String(s.config.Prefix + "/" + key)
}

func (s *Store) bucket() *string { return &s.config.Bucket }

// failed adds the operation and the object to err.
func (s *Store) failed(verb, key string, err error) error {
	return fmt.Errorf("%s s3://%s/%s: %w", verb, s.config.Bucket, *s.object(key), err)
}

// A version identifies a state of an object by its ETag and by the ID of the write that made it.
// Conditional requests need the ETag. The ID is needed because states with the same bytes may have
// the same ETag.
type version struct {
	plain bool   // the object has no trailer, so its ETag may recur
	id    string // of the write
	etag  string // with its quotes
}

func (v version) encode() storage.Version {
	kind := "t"
	if v.plain {
		kind = "p"
	}
	return storage.Version(kind + v.id + v.etag)
}

func parseVersion(text storage.Version) (version, error) {
	v := string(text)
	if len(v) < 1+idLen+2 || v[0] != 't' && v[0] != 'p' || v[1+idLen] != '"' || v[len(v)-1] != '"' {
		return version{}, fmt.Errorf("%w: %.80q is not a version of this store", storage.ErrConflict, v)
	}
	return version{plain: v[0] == 'p', id: v[1 : 1+idLen], etag: v[1+idLen:]}, nil
}

// normalETag returns an ETag in the form that If-Match requires.
func normalETag(etag *string) string {
	return `"` + strings.Trim(strings.TrimPrefix(aws.ToString(etag), "W/"), `"`) + `"`
}

// utc returns a time in UTC, as for [storage.Info.Modified].
func utc(t *time.Time) time.Time { return aws.ToTime(t).UTC() }
