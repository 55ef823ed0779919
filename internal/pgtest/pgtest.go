package pgtest

import "testing"

// Start returns the shared server, with separate databases for the test, which are removed when the
// test ends. If the server cannot be started, the test fails.
func Start(t testing.TB) *TestServer {
	t.Helper()
	server, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return &TestServer{t, closing(t, server)}
}

// StartOwn starts a server for this test only. The test may stop it; otherwise it is stopped when the test ends.
// Settings are as in [New].
func StartOwn(t testing.TB, settings ...string) *TestServer {
	t.Helper()
	server, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	return &TestServer{t, closing(t, server)}
}

func closing(t testing.TB, server *Server) *Server {
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("end PostgreSQL: %v", err)
		}
	})
	return server
}

// A TestServer is a server for a test. Errors fail the test.
type TestServer struct {
	t      testing.TB
	server *Server
}

// URL calls the server's Database method.
func (s *TestServer) URL(database string) string {
	s.t.Helper()
	u, err := s.server.Database(database)
	s.must(err)
	return u
}

// Stop calls the server's Stop method.
func (s *TestServer) Stop() { s.t.Helper(); s.must(s.server.Stop()) }

// Kill calls the server's Kill method.
func (s *TestServer) Kill() { s.t.Helper(); s.must(s.server.Kill()) }

// Start calls the server's Start method.
func (s *TestServer) Start() { s.t.Helper(); s.must(s.server.Start()) }

// Restart calls Stop and Start.
func (s *TestServer) Restart() { s.t.Helper(); s.Stop(); s.Start() }

// Demote calls the server's Demote method.
func (s *TestServer) Demote() { s.t.Helper(); s.must(s.server.Demote()) }

// Promote calls the server's Promote method.
func (s *TestServer) Promote() { s.t.Helper(); s.must(s.server.Promote()) }

// Log calls the server's Log method.
func (s *TestServer) Log() string { return s.server.Log() }

func (s *TestServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// PgBouncer starts PgBouncer in transaction mode in front of the server, and returns the
// URL of the database through it. PgBouncer is stopped when the test ends.
func PgBouncer(t testing.TB, s *TestServer, database string) string {
	t.Helper()
	u, stop, err := s.server.pgBouncer(s.URL(database))
	s.must(err)
	t.Cleanup(func() {
		if err := stop.Close(); err != nil {
			t.Errorf("end PgBouncer: %v", err)
		}
	})
	return u
}
