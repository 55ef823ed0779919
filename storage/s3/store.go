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
	transport   *http.Transport // nil if the client is the caller's
	credentials aws.CredentialsProvider
	authorized  atomic.Bool // there have been credentials
	answered    atomic.Bool // there has been an answer of an S3 server
	whole       int64       // objects up to so many bytes are read whole
	buffers     *semaphore.Weighted
	tips        *tips
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

// New returns a store that sends its requests by a client, whose credentials, region, endpoint and
// HTTP client are used: those of config do not count, nor do Transport and Stall. Its retries and
// checksums are the store's own. It sends no request.
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

// Connect returns a store with a client of its own. Credentials and, if it is not given, the
// region come from where the AWS SDK looks for them: the environment, the shared configuration
// files, and the machine's role. So do certificates to trust beside the system's
// (AWS_CA_BUNDLE). It sends no request to the bucket.
func Connect(ctx context.Context, config Config) (*Store, error) {
	s, err := newStore(config)
	if err != nil {
		return nil, err
	}
	config = s.config
	s.transport = newTransport(config.Stall)
	chain, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithLogger(logging.Nop{})) // what matters is in errors
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
		tips:    newTips(config.Memory / 4),
		probe:   probeState{turn: make(chan struct{}, 1)},
	}, nil
}

// adapt sets the options of a client that the protocol of the store depends on.
func (s *Store) adapt(o *s3.Options) {
	// An attempt whose outcome is unknown must not be followed by another
	// one before the driver has looked.
	o.Retryer = aws.NopRetryer{}
	// The payload hash of the signature has the server check what arrives,
	// and the record what is read. Not every server knows the others.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.ContinueHeaderThresholdBytes = -1 // a commit is one round trip
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

// Close closes the connections that are idle, of a client of its own.
func (s *Store) Close() error {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

// object returns the name of a key in the bucket.
func (s *Store) object(key string) *string {
	if s.config.Prefix == "" {
		return &key
	}
	return aws.String(s.config.Prefix + "/" + key)
}

func (s *Store) bucket() *string { return &s.config.Bucket }

// failed says what failed, and where.
func (s *Store) failed(verb, key string, err error) error {
	return fmt.Errorf("%s s3://%s/%s: %w", verb, s.config.Bucket, *s.object(key), err)
}

// A version names a state of an object: the ETag that conditions compare, and
// the id of the write, which tells apart what a server would not.
type version struct {
	plain bool   // the object has no trailer: its ETag may come again
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

// normalETag returns an ETag as If-Match takes it.
func normalETag(etag *string) string {
	return `"` + strings.Trim(strings.TrimPrefix(aws.ToString(etag), "W/"), `"`) + `"`
}

// utc is a time as [storage.Info.Modified] has it.
func utc(t *time.Time) time.Time { return aws.ToTime(t).UTC() }
