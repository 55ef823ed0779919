package couchtest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
)

// Variable is the name of the environment variable with the URL of another
// server.
const Variable = "FEEDCTL_TEST_COUCHDB"

// named returns the server that the environment names, or nil if it names none. Requests of tests go
// through a proxy on a loopback port, which adds the credentials. Thus, neither the tests nor the commands
// that they run have credentials.
func named() (*Server, error) {
	raw := os.Getenv(Variable)
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is not http://USER:PASSWORD@HOST:PORT", Variable)
	}
	credentials := u.User
	u.User = nil
	authorize := func(r *http.Request) {
		if credentials != nil {
			password, _ := credentials.Password()
			r.SetBasicAuth(credentials.Username(), password)
		}
	}
	if err := look(u, authorize); err != nil {
		return nil, fmt.Errorf("check the server that %s names: %w", Variable, err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			authorize(r.Out)
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 20, DisableCompression: true},
		ModifyResponse: func(r *http.Response) error {
			// The server's redirects lead to its own address, to which clients would send no credentials.
			if location, err := r.Location(); err == nil && location.Host == u.Host {
				r.Header.Set("Location", location.RequestURI())
			}
			return nil
		},
		FlushInterval: -1, // a feed's rows are sent as they arrive
		// If the connection to the server breaks, so does the one to the client.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // tests break connections
	}
	return &Server{url: httptest.NewServer(proxy).URL}, nil
}

// look makes sure that a server responds and accepts the credentials.
func look(u *url.URL, authorize func(*http.Request)) error {
	r, err := http.NewRequest(http.MethodGet, u.JoinPath("/").String(), nil)
	if err != nil {
		return err
	}
	authorize(r)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", r.Method, r.URL, response.Status)
	}
	return nil
}
