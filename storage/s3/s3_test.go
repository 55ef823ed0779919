package s3_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestMain(m *testing.M) {
	storagetest.Main(m, storage.Registry{"s3": s3.Open}.Open)
}

// newStore returns a store in an empty prefix of the server.
func newStore(t testing.TB, server *s3test.Server, prefix string, change ...func(*s3.Config)) *s3.Store {
	t.Helper()
	u, err := url.Parse(server.URL(prefix))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s3.ParseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	config.Backoff = time.Millisecond
	for _, f := range change {
		f(&config)
	}
	s, err := s3.Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var properties = storage.Properties{
	Remote: true, Clock: true, Sweeps: true, Presigns: true, Counts: true, Probes: true, Names: true,
}

func TestStore(t *testing.T) {
	server := s3test.Start(t)
	var n atomic.Int32
	var prefixes sync.Map // by store
	prefix := func(s storage.Store) string {
		prefix, _ := prefixes.Load(s)
		return prefix.(string)
	}
	storagetest.Run(t, func(t *testing.T) storage.Store {
		prefix := fmt.Sprintf("some/prefix-%d", n.Add(1))
		s := newStore(t, server, prefix)
		prefixes.Store(s, prefix)
		return s
	}, storagetest.Options{
		URL:         func(s storage.Store) string { return server.URL(prefix(s)) },
		Kills:       5,
		Counters:    12,
		Long:        *allFaults,
		Leftovers:   func(t *testing.T, s storage.Store, key string) { leave(t, server, prefix(s), key) },
		LargerSizes: true,
		Properties:  properties,
	})
}

// rawClient returns the bucket, and a client with which the server is used without the driver.
func rawClient(t testing.TB, server *s3test.Server) (client *sdk.Client, bucket *string) {
	t.Helper()
	u, err := url.Parse(server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s3.ParseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := awsconfig.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sdk.NewFromConfig(chain, func(o *sdk.Options) {
		o.UsePathStyle = config.PathStyle
		if config.Region != "" {
			o.Region = config.Region
		}
		if config.Endpoint != "" {
			o.BaseEndpoint = &config.Endpoint
		}
	}), &config.Bucket
}

// leave leaves an unfinished upload behind.
func leave(t *testing.T, server *s3test.Server, prefix, key string) {
	t.Helper()
	client, bucket := rawClient(t, server)
	u, err := url.Parse(server.URL(prefix))
	if err != nil {
		t.Fatal(err)
	}
	object := aws.String(strings.TrimPrefix(u.Path, "/") + "/" + key)
	upload, err := client.CreateMultipartUpload(t.Context(), &sdk.CreateMultipartUploadInput{Bucket: bucket, Key: object})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.UploadPart(t.Context(), &sdk.UploadPartInput{
		Bucket: bucket, Key: object, UploadId: upload.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("unfinished"),
	})
	if err != nil {
		t.Fatal(err)
	}
}
