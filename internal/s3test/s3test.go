// Package s3test provides real S3 servers for tests: versitygw, or the server named by
// the environment.
//
// The variable FEEDCTL_TEST_S3 may hold the URL of a bucket to test with, such as
// "s3://bucket/prefix?region=eu-central-1". Credentials come from the default sources of
// the AWS SDK. Each test uses a separate prefix and does not remove its objects: use a
// lifecycle rule that expires objects and aborts multipart uploads after a day.
package s3test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/installed"
)

// Version is the tested version of versitygw; "make versitygw" installs it.
const Version = "v1.8.0"

// Variable is the name of the environment variable with the URL of another
// server's bucket.
const Variable = "FEEDCTL_TEST_S3"

const (
	accessKey = "feedctl"
	secretKey = "feedctl-secret"
)

// A Server is an S3 server with a bucket.
type Server struct {
	url *url.URL
	// Dir holds the objects of the bucket as files; "" if the server was not
	// started by the test.
	Dir string

	t       testing.TB
	address string
	stop    func()
}

// Start returns a server for the test: the one named by the environment, or a new one,
// which is stopped when the test ends. The environment of the process has the credentials
// from then on, so that tests with servers may run in parallel. If the server cannot be
// started, the test fails.
func Start(t testing.TB) *Server {
	t.Helper()
	if raw := os.Getenv(Variable); raw != "" {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "s3" || u.Host == "" {
			t.Fatalf("%s: %q is not s3://BUCKET/PREFIX?...", Variable, raw)
		}
		return &Server{url: u.JoinPath("test-" + rand.Text())}
	}
	if err := setCredentials(); err != nil {
		t.Fatal(err)
	}
	return launch(t)
}

// StartOwn is like [Start] but always starts a new server, which the test may stop. The environment
// has the credentials of the server until the test ends.
func StartOwn(t testing.TB) *Server {
	t.Helper()
	for name, value := range credentials() {
		t.Setenv(name, value)
	}
	return launch(t)
}

// credentials returns the variables with the credentials, which are the same for all started
// servers.
func credentials() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID":           accessKey,
		"AWS_SECRET_ACCESS_KEY":       secretKey,
		"AWS_SESSION_TOKEN":           "",
		"AWS_PROFILE":                 "",
		"AWS_CONFIG_FILE":             os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_CA_BUNDLE":               "", // otherwise every store would parse the file
	}
}

// setCredentials adds the credentials to the environment of the process, unless they are already there.
func setCredentials() error {
	settingCredentials.Lock()
	defer settingCredentials.Unlock()
	for name, value := range credentials() {
		if now, found := os.LookupEnv(name); found && now == value {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// settingCredentials is held while the environment is being changed.
var settingCredentials sync.Mutex

func launch(t testing.TB) *Server {
	t.Helper()
	root := t.TempDir()
	bucket := "test-" + strings.ToLower(rand.Text())
	dir := filepath.Join(root, bucket)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, t: t}
	s.Start()
	t.Cleanup(func() { s.stop() })
	query := url.Values{"endpoint": {"http://" + s.address}, "path_style": {"true"}, "region": {"us-east-1"}}
	s.url = &url.URL{Scheme: "s3", Host: bucket, Path: "/", RawQuery: query.Encode()}
	return s
}

// Start starts the server again, at its previous address.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("start S3 server: %v", err)
	}
}

// Stop kills the server.
func (s *Server) Stop() { s.stop() }

// URL returns the URL of a store in the server's bucket, below a prefix, which
// may be empty.
func (s *Server) URL(prefix string) string { return s.url.JoinPath(prefix).String() }

// start starts versitygw with its data in the directory above Dir.
func (s *Server) start() error {
	program, err := installed.Tool("versitygw-"+Version, "versitygw")
	if err != nil {
		return err
	}
	for range 5 { // another process may take the port first
		address := s.address
		if address == "" {
			if address, err = freeAddress(); err != nil {
				return err
			}
		}
		cmd := exec.Command(program, "-a", accessKey, "-s", secretKey, "-p", address, "-q", "--keep-alive", "posix", filepath.Dir(s.Dir))
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		ended := make(chan struct{})
		if err := startWithParent(cmd, ended); err != nil {
			return err
		}
		if answers("http://"+address+"/"+filepath.Base(s.Dir), ended) {
			s.address = address
			s.stop = func() {
				_ = cmd.Process.Kill() // the process may have ended
				<-ended
			}
			return nil
		}
		if s.t.Context().Err() != nil {
			return s.t.Context().Err()
		}
		s.t.Logf("versitygw at %s ended: %s", address, output.Bytes())
	}
	return errors.New("versitygw does not start")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// answers reports whether the server responds before its process ends. Another server that has taken the port first
// does not have the bucket.
func answers(bucket string, ended <-chan struct{}) bool {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := client.Get(bucket)
		if err == nil {
			response.Body.Close()
			if response.Header.Get("Server") == "VERSITYGW" && response.StatusCode != http.StatusNotFound {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
}
