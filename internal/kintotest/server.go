// Package kintotest provides Kinto servers for tests: the real server, installed from the Python package
// index, on its memory backend or on PostgreSQL; and a scriptable fake.
package kintotest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/loopback"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// A Backend says where a server keeps its data.
type Backend string

// The backends of a server.
const (
	Memory     Backend = "memory"
	PostgreSQL Backend = "postgresql"
)

// Backends lists all backends.
var Backends = []Backend{Memory, PostgreSQL}

// A Server is a process with Kinto on a loopback port. It accepts any user with any password.
type Server struct {
	host     string
	url      string // ends in /v1, without a slash
	database string // the URL of the server's PostgreSQL database; "" if the data is in memory
	settings []string
	mu       sync.Mutex
	proc     *process // nil while the server is stopped
}

// A process is a run of the server.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // closing it ends the server
	output *bufio.Reader
	stderr *bytes.Buffer // complete when the process has ended
}

var (
	// These return the servers that the tests of a process share, since a server takes two seconds of CPU
	// time to start.
	sharedInMemory     = sync.OnceValues(func() (*Server, error) { return Launch(Memory) })
	sharedOnPostgreSQL = sync.OnceValues(func() (*Server, error) { return Launch(PostgreSQL) })
	// cluster is the PostgreSQL server with the databases of the Kinto servers. It ends with the process.
	cluster = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.New("timezone='UTC'") })
	// names counts the databases and buckets.
	names atomic.Int64
)

// Start returns a server with Kinto's default settings that all tests of the process
// share. It ends with the process. If it cannot be started, the test fails.
func Start(t testing.TB, backend Backend) *Server {
	t.Helper()
	start := sharedInMemory
	if backend == PostgreSQL {
		start = sharedOnPostgreSQL
	}
	s, err := start()
	if err != nil {
		t.Fatalf("start Kinto server: %v", err)
	}
	return s
}

// StartOwn starts a server for one test. The server ends with the test. The settings are those of Kinto,
// such as "paginate_by=7".
func StartOwn(t testing.TB, backend Backend, settings ...string) *Server {
	t.Helper()
	s, err := Launch(backend, settings...)
	if err != nil {
		t.Fatalf("start Kinto server: %v", err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Launch starts a server outside of a test. The server ends with the process at the latest.
func Launch(backend Backend, settings ...string) (*Server, error) {
	s := &Server{host: loopback.Host(), settings: settings}
	if backend == PostgreSQL {
		databases, err := cluster()
		if err != nil {
			return nil, err
		}
		if s.database, err = databases.Database("kinto" + strconv.FormatInt(names.Add(1), 10)); err != nil {
			return nil, err
		}
	}
	return s, s.start()
}

// URL returns the server's root, which ends in /v1.
func (s *Server) URL() string { return s.url }

// Database returns the URL of the server's PostgreSQL database, or "" if the data is in memory.
func (s *Server) Database() string { return s.database }

// NewCollection creates a bucket that everyone may write, with an empty collection, and
// returns the collection's URL.
func (s *Server) NewCollection(t testing.TB) string { t.Helper(); return newCollection(t, s.url) }

// Purge removes all tombstones, as "kinto purge-deleted" does.
func (s *Server) Purge(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		t.Fatal("purge: the server is not running")
	}
	if _, err := io.WriteString(s.proc.stdin, "purge\n"); err != nil {
		t.Fatalf("purge: %v", err)
	}
	if _, err := s.proc.output.ReadString('\n'); err != nil {
		t.Fatalf("purge: %v", err)
	}
}

// Kill ends the server at once (SIGKILL), as a crash does; it does nothing if the server is not running.
// Data in memory is lost.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.proc.end()
	s.proc = nil
}

// Restart starts the server again, at the same URL, after [Server.Kill].
func (s *Server) Restart() error { return s.start() }

// start starts the server on the port of the previous run, or on a free port if there was none.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return errors.New("server is already running")
	}
	python, script, err := installation()
	if err != nil {
		return err
	}
	port := "0"
	if s.url != "" {
		port = strings.TrimSuffix(s.url[strings.LastIndexByte(s.url, ':')+1:], "/v1")
	}
	p := &process{
		cmd:    exec.Command(python, append([]string{script, s.host, port, s.database}, s.settings...)...),
		stderr: new(bytes.Buffer),
	}
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.output = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, err := p.output.ReadString('\n')
	if err != nil {
		p.end()
		return fmt.Errorf("%s ended: %s", script, p.stderr.Bytes())
	}
	s.url = "http://" + s.host + ":" + strings.TrimSpace(line) + "/v1"
	s.proc = p
	return nil
}

// end kills the process, unless it has already ended.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.stdin.Close()
}
