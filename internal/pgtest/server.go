package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Variable is the name of the environment variable with the URL of another
// server.
const Variable = "FEEDCTL_TEST_POSTGRES"

// defaults are the settings of a separate server. Test data need not survive a crash of the machine.
var defaults = []string{
	"listen_addresses=''",
	"max_connections=200",
	"fsync=off",
	"full_page_writes=off",
	"log_line_prefix='%m [%p] %q%u@%d '",
}

// A Server is a PostgreSQL server. Its methods may be called concurrently, except those
// that stop it.
type Server struct {
	base *url.URL // URL of the database from which others are managed
	own  *cluster // nil if the server is shared

	mu    sync.Mutex
	names map[string]string // names of the created databases, by the name that the test uses
}

// New starts a server. Settings are lines of postgresql.conf, such as "fsync=on", which is
// off by default. The caller closes the server.
func New(settings ...string) (*Server, error) {
	own, err := newCluster(append(defaults, settings...))
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	query := url.Values{"host": {own.dir}}
	base := &url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/postgres", RawQuery: query.Encode()}
	return &Server{base: base, own: own, names: make(map[string]string)}, nil
}

// shared is the server of all tests of this process that do not need a separate one, since starting
// a server takes longer than most tests. It ends with the process.
var shared = sync.OnceValues(func() (*Server, error) { return New() })

// guest returns a shared server: the one that the environment names, or else that of this
// process.
func guest() (*Server, error) {
	raw := os.Getenv(Variable)
	if raw == "" {
		host, err := shared()
		if err != nil {
			return nil, err
		}
		return &Server{base: host.base, names: make(map[string]string)}, nil
	}
	base, err := url.Parse(raw)
	if err != nil || base.Scheme != "postgres" && base.Scheme != "postgresql" {
		return nil, fmt.Errorf("%s is not postgres://USER:PASSWORD@HOST/DATABASE?...", Variable)
	}
	return &Server{base: base, names: make(map[string]string)}, nil
}

// Close stops the server and removes its files. For a shared server, it only removes the
// databases created here.
func (s *Server) Close() error {
	if s.own != nil {
		return s.own.close()
	}
	var errs []error
	for _, name := range s.names {
		errs = append(errs, s.exec("DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"))
	}
	return errors.Join(errs...)
}

// Database returns the URL of the database with a name; the first call for a name creates the
// database. On a server started by this package, the user in the URL is a superuser.
func (s *Server) Database(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	created, ok := s.names[name]
	if !ok {
		created = name
		if s.own == nil {
			created = "test_" + strings.ToLower(rand.Text()[:12]) + "_" + name
		}
		if err := s.exec("CREATE DATABASE " + pgx.Identifier{created}.Sanitize() + " TEMPLATE template0"); err != nil {
			return "", err
		}
		s.names[name] = created
	}
	u := *s.base
	u.Path = "/" + created
	return u.String(), nil
}

func (s *Server) exec(sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.base.String())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// Stop shuts the server down gracefully: clients are disconnected and their transactions
// rolled back (fast shutdown).
func (s *Server) Stop() error { return s.control("stop", "-m", "fast") }

// Kill stops the server at once, like a crash; the next start recovers (immediate
// shutdown).
func (s *Server) Kill() error { return s.control("stop", "-m", "immediate") }

// Start starts a server that was stopped or killed.
func (s *Server) Start() error {
	if s.own == nil {
		return errNotOwn
	}
	return s.own.start()
}

// Demote restarts the server as a standby: it is read-only until it is promoted.
func (s *Server) Demote() error {
	if s.own == nil {
		return errNotOwn
	}
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.own.owner.writeFile(filepath.Join(s.own.dir, "data", "standby.signal"), ""); err != nil {
		return err
	}
	return s.own.start()
}

// Promote promotes a standby to primary.
func (s *Server) Promote() error { return s.control("promote") }

var errNotOwn = errors.New("the server is shared: a test that stops it needs StartOwn")

func (s *Server) control(args ...string) error {
	if s.own == nil {
		return errNotOwn
	}
	return s.own.control(args...)
}

// Log returns the log of the server, or "" if the server is shared.
func (s *Server) Log() string {
	if s.own == nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(s.own.dir, logName))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
