package s3test_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/s3test"
)

func TestStart(t *testing.T) {
	t.Setenv(s3test.Variable, "")
	server := s3test.Start(t)
	u, err := url.Parse(server.URL("a/b"))
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "s3" || u.Path != "/a/b" {
		t.Errorf("URL is %s", u)
	}
	if _, err := os.Stat(server.Dir); err != nil {
		t.Error(err)
	}
	response, err := http.Get(u.Query().Get("endpoint") + "/" + u.Host + u.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden { // no credentials
		t.Errorf("status %s", response.Status)
	}
}

func TestServerOfEnvironment(t *testing.T) {
	t.Setenv(s3test.Variable, "s3://bucket/prefix?region=eu-central-1")
	one, two := s3test.Start(t).URL("a"), s3test.Start(t).URL("a")
	for _, u := range []string{one, two} {
		if !strings.HasPrefix(u, "s3://bucket/prefix/test-") || !strings.HasSuffix(u, "/a?region=eu-central-1") {
			t.Errorf("URL is %s", u)
		}
	}
	if one == two {
		t.Errorf("two servers share %s", one)
	}
}
