package s3_test

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestClient: an object written by a store with the caller's client can be read by another store.
func TestClient(t *testing.T) {
	server := s3test.Start(t)
	own := newStore(t, server, "shared")
	u, err := url.Parse(server.URL("shared"))
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
	client := awss3.NewFromConfig(chain, func(o *awss3.Options) {
		o.BaseEndpoint, o.UsePathStyle, o.Region = aws.String(config.Endpoint), true, "us-east-1"
	})
	given, err := s3.New(client, s3.Config{Bucket: config.Bucket, Prefix: config.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	first, err := given.Create(t.Context(), "a/b", storage.Meta{}, storage.Bytes([]byte("one ")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Append(t.Context(), "a/b", first, storage.Meta{}, storage.Bytes([]byte("two"))); err != nil {
		t.Fatal(err)
	}
	if _, err := given.Append(t.Context(), "a/b", first, storage.Meta{}, storage.Bytes([]byte("two"))); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("append to another version: %v", err)
	}
	object, err := given.Get(t.Context(), "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if text, err := io.ReadAll(object.Body); err != nil || string(text) != "one two" {
		t.Errorf("the object is %q, %v", text, err)
	}
	if link, err := given.Presign(t.Context(), "a/b", time.Hour); err != nil || !strings.Contains(link, config.Bucket) {
		t.Errorf("the link is %s, %v", link, err)
	}
	if _, err := s3.New(awss3.New(awss3.Options{Region: "r"}), s3.Config{Bucket: "b"}); !errors.Is(err, storage.ErrPermission) {
		t.Errorf("a client without credentials: %v", err)
	}
}
