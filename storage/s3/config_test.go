package s3_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage/s3"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]s3.Config{
		"s3://bucket":                                                {Bucket: "bucket"},
		"s3://bucket/":                                               {Bucket: "bucket"},
		"s3://my.bucket/a/b/":                                        {Bucket: "my.bucket", Prefix: "a/b"},
		"s3://bucket?region=eu-north-1":                              {Bucket: "bucket", Region: "eu-north-1"},
		"s3://bucket?sse=AES256":                                     {Bucket: "bucket", SSE: "AES256"},
		"s3://bucket?sse=aws:kms":                                    {Bucket: "bucket", SSE: "aws:kms"},
		"s3://bucket?path_style=true":                                {Bucket: "bucket", PathStyle: true},
		"s3://bucket?endpoint=http://h:9":                            {Bucket: "bucket", Endpoint: "http://h:9", PathStyle: true},
		"s3://bucket?endpoint=https://h&path_style=false":            {Bucket: "bucket", Endpoint: "https://h"},
		"s3://b-1?endpoint=https://s3.eu-west-1.amazonaws.com":       {Bucket: "b-1", Endpoint: "https://s3.eu-west-1.amazonaws.com"},
		"s3://b?sse=aws:kms&kms_key_id=alias/k":                      {Bucket: "b", SSE: "aws:kms", KMSKeyID: "alias/k"},
		"s3://b?storage_class=INTELLIGENT_TIERING&acl=public-read":   {Bucket: "b", StorageClass: "INTELLIGENT_TIERING", ACL: "public-read"},
		"s3://b/p?endpoint=http%3A%2F%2F127.0.0.1%3A1&region=r-east": {Bucket: "b", Prefix: "p", Endpoint: "http://127.0.0.1:1", Region: "r-east", PathStyle: true},
	} {
		got, err := parse(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Transport" }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestParseURLErrors: errors name the mistake in a URL, but never a password.
func TestParseURLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"file://bucket":                   "scheme",
		"s3:":                             "without bucket",
		"s3:bucket":                       "without bucket",
		"s3:///a":                         "without bucket",
		"s3://bucket:9000/a":              "endpoint=",
		"s3://bucket#feed":                "fragment",
		"s3://key:verysecret@bucket":      "AWS_ACCESS_KEY_ID",
		"s3://bucket?regoin=x":            "acl, endpoint, kms_key_id, path_style, region, sse, storage_class",
		"s3://bucket?region=a&region=b":   "twice",
		"s3://bucket?region=":             "leave it out",
		"s3://bucket?path_style=2":        "true or false",
		"s3://bucket?endpoint=host:9000":  "http://HOST:PORT",
		"s3://bucket?endpoint=ftp://host": "http://HOST:PORT",
		"s3://bucket?endpoint=http://u:verysecret@host": "credentials",
		"s3://bucket?endpoint=http://h?x=1":             "http://HOST:PORT",
		"s3://bucket?sse=aes":                           "AES256",
		"s3://bucket?sse=AES256&kms_key_id=x":           "sse=aws:kms",
		"s3://bucket?kms_key_id=x":                      "sse=aws:kms",
		"s3://bucket?storage_class=COLD":                "GLACIER",
		"s3://bucket?acl=open":                          "public-read",
		"s3://bucket/a//b":                              "prefix",
		"s3://bucket/a/../b":                            "prefix",
		"s3://bucket/!feedctl":                          "prefix",
		"s3://bucket/" + strings.Repeat("abc/", 101):    "prefix",
		"s3://bucket?a;b":                               "parameters",
	} {
		_, err := parse(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}

func parse(t *testing.T, text string) (s3.Config, error) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s3.ParseURL(u)
}

// TestRegion: the region comes from the URL, the environment or a custom endpoint; AWS has
// no default.
func TestRegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	if _, err := s3.Connect(t.Context(), s3.Config{Bucket: "b"}); err == nil || !strings.Contains(err.Error(), "region=") {
		t.Errorf("without region: %v", err)
	}
	for _, config := range []s3.Config{{Bucket: "b", Region: "eu-west-1"}, {Bucket: "b", Endpoint: "http://127.0.0.1:1"}} {
		if _, err := s3.Connect(t.Context(), config); err != nil {
			t.Errorf("%+v: %v", config, err)
		}
	}
	if _, err := s3.Connect(t.Context(), s3.Config{Bucket: "b", Region: "r", PartSize: 1}); err == nil {
		t.Error("parts of one byte: no error")
	}
}
