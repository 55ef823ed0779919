// Package couchtest provides servers with CouchDB's HTTP API for tests: PouchDB
// Server's engine, installed from npm, and a scriptable fake that responds like
// Apache CouchDB 3.5.
//
// PouchDB's engine differs from CouchDB in these points: it never sends multipart/mixed; it ignores timeout,
// Range, and the limit of a continuous feed; a continuous feed outlives its database; sequences are
// integers, and there is no pending; the response to a bad since is 200, and to POST _selector 404; JSON is
// parsed and encoded again; instance_start_time is the start of the process; and _local documents are
// compared by revision. In all of these, the [Fake] behaves like CouchDB.
//
// The variable FEEDCTL_TEST_COUCHDB may hold the URL of another server, such as
// "http://admin:secret@localhost:5984", whose user may create databases. The tests then share that server
// instead of one that they start. Each database on it has a random name, and is deleted when the test ends.
// A test that kills its server starts one of its own even then.
package couchtest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/installed"
	"github.com/feedctl/feedctl/internal/loopback"
)

// A Server is a process with PouchDB Server's engine on a loopback port, or the server
// that the environment names.
type Server struct {
	host string // the address of the server; "" if this process did not start it
	url  string // without a slash at its end
	dir  string // the directory of the databases; "" if they are in memory
	mu   sync.Mutex
	proc *process // nil while the server is stopped
}

// A process is a run of the server.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer // closing it ends the server
	ended  chan struct{}
	stderr *bytes.Buffer // complete when ended is closed
}

var (
	// shared returns the server that the tests of a process share, since it takes a quarter of a second to
	// start one.
	shared = sync.OnceValues(func() (*Server, error) {
		if s, err := named(); s != nil || err != nil {
			return s, err
		}
		return Launch("")
	})
	// databases counts the databases that NewDB has named.
	databases atomic.Int64
)

// Start returns a server that all tests of the process share: the one that the environment names, or else
// one that keeps databases in memory and ends with the process. If the server cannot be used or started, the
// test fails.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("start CouchDB server: %v", err)
	}
	return s
}

// StartOwn starts a server for one test. The server keeps databases in files, which persist across
// [Server.Restart], and ends with the test.
func StartOwn(t testing.TB) *Server {
	t.Helper()
	s, err := Launch(t.TempDir())
	if err != nil {
		t.Fatalf("start CouchDB server: %v", err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Launch starts a server outside of a test. The server keeps databases in files in dir or, if dir is empty,
// in memory, and ends with the process at the latest.
func Launch(dir string) (*Server, error) {
	s := &Server{host: loopback.Host(), dir: dir}
	return s, s.start()
}

// URL returns the server's root, without a slash at its end.
func (s *Server) URL() string { return s.url }

// NewDB creates an empty database with a name of its own and returns its URL, without a slash at its end.
// The database is deleted when the test ends.
func (s *Server) NewDB(t testing.TB) string {
	t.Helper()
	u := s.url + "/db" + strconv.FormatInt(databases.Add(1), 10)
	if s.host == "" {
		u = s.url + "/feedctl-test-" + strings.ToLower(rand.Text())
	}
	if err := request(http.MethodPut, u); err != nil {
		t.Fatal(err)
	}
	if s.host == "" {
		DeleteAtEnd(t, u)
	} else { // errors do not matter: the database ends with the server, which the test may have killed
		t.Cleanup(func() { _ = request(http.MethodDelete, u) })
	}
	return u
}

// NewDB creates an empty database on the shared server of [Start], and returns its URL, without a slash at
// its end. The database is deleted when the test ends.
func NewDB(t testing.TB) string {
	t.Helper()
	return Start(t).NewDB(t)
}

// DeleteAtEnd deletes a database, which need not exist, on the server of [Start] when the
// test ends. If it cannot be deleted from a server that the environment names, the test fails.
func DeleteAtEnd(t testing.TB, database string) {
	t.Cleanup(func() {
		err := request(http.MethodDelete, database)
		var no *refused
		if os.Getenv(Variable) != "" && err != nil && !(errors.As(err, &no) && no.status == http.StatusNotFound) {
			t.Errorf("the database is left on the server: %v", err)
		}
	})
}

// IsPouchDB reports whether the server of [Start] is PouchDB's engine, for tests in which that engine is
// known to differ from CouchDB.
func IsPouchDB(t testing.TB) bool {
	t.Helper()
	return strings.Contains(Send(t, http.MethodGet, Start(t).URL()+"/", ""), `"express-pouchdb"`)
}

// Kill ends the server at once (SIGKILL), as a crash does; it does nothing if the server is not running.
// Requests in flight lose their connection.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	_ = s.proc.cmd.Process.Kill() // it may have ended
	<-s.proc.ended
	s.proc.stdin.Close()
	s.proc = nil
}

// Restart starts the server again, at the same URL, after [Server.Kill].
func (s *Server) Restart() error {
	if s.host == "" {
		return errors.New("server is shared: use StartOwn in a test that restarts it")
	}
	return s.start()
}

var packages = installed.Packages{Name: "couchtest", Source: "internal/couchtest/server", Lock: "package-lock.json", Has: "node_modules", Target: "couchdb"}

// start starts the server on the port of the previous run, or on a free port if there was none.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return errors.New("server is already running")
	}
	source, modules, err := packages.Find()
	if err != nil {
		return fmt.Errorf("find the CouchDB server: %w", err)
	}
	port := "0"
	if s.url != "" {
		port = s.url[strings.LastIndexByte(s.url, ':')+1:]
	}
	args := []string{filepath.Join(source, "server.js"), modules, port, s.dir, s.host}
	p := &process{cmd: exec.Command("node", args...), ended: make(chan struct{}), stderr: new(bytes.Buffer)}
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	output := bufio.NewReader(stdout)
	line, err := output.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, output) // ends with the process
		_ = p.cmd.Wait()                   // the error does not matter: the process may have been killed
		close(p.ended)
	}()
	if err != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("node %s ended: %s", strings.Join(args, " "), p.stderr.Bytes())
	}
	s.url = "http://" + s.host + ":" + strings.TrimSpace(line)
	s.proc = p
	return nil
}

// request sends a request without a body.
func request(method, address string) error {
	r, err := http.NewRequest(method, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("%s %s: %w", method, address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, address, err)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, address, &refused{response.StatusCode, string(body)})
	}
	return nil
}

// refused is the error returned if the server responds to a request with an error.
type refused struct {
	status int
	body   string
}

func (e *refused) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }
