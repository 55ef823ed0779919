package e2e

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
)

// A network connects the processes of a test with their S3 server.
type network struct {
	t       *testing.T
	server  *s3test.Server
	proxy   *httptest.Server
	weather *s3fault.Weather
}

func startNetwork(t *testing.T, server *s3test.Server, seed uint64) *network {
	t.Helper()
	n := &network{t: t, server: server, weather: s3fault.NewWeather(seed)}
	store, err := url.Parse(server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(store.Query().Get("endpoint"))
	if err != nil || endpoint.Host == "" {
		t.Fatalf("a proxy needs an endpoint, but %s has none: %v", store, err)
	}
	n.proxy = httptest.NewServer(s3fault.Proxy(endpoint, n.weather.Decide))
	t.Cleanup(n.proxy.Close)
	return n
}

// url returns the URL of a store, reached through the network.
func (n *network) url(prefix string) string {
	u, err := url.Parse(n.server.URL(prefix))
	if err != nil {
		n.t.Fatal(err)
	}
	query := u.Query()
	query.Set("endpoint", n.proxy.URL)
	u.RawQuery = query.Encode()
	return u.String()
}
