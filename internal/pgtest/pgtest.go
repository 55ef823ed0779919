package pgtest

import "testing"

// Start returns a server that the test shares with others, but for its databases:
// that of the environment if it names one. They end with the test. That it cannot be
// had ends the test.
func Start(t testing.TB) *TestServer {
	t.Helper()
	server, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return &TestServer{t, closing(t, server)}
}

// StartOwn returns a server that the test has for itself and can stop. It ends with the
// test. Settings are as in [New].
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

// A TestServer is a server for a test, which its errors end.
type TestServer struct {
	t      testing.TB
	server *Server
}

// URL is Database of the server.
func (s *TestServer) URL(database string) string {
	s.t.Helper()
	u, err := s.server.Database(database)
	s.must(err)
	return u
}

// Stop is Stop of the server.
func (s *TestServer) Stop() { s.t.Helper(); s.must(s.server.Stop()) }

// Kill is Kill of the server.
func (s *TestServer) Kill() { s.t.Helper(); s.must(s.server.Kill()) }

// Start is Start of the server.
func (s *TestServer) Start() { s.t.Helper(); s.must(s.server.Start()) }

// Restart is Stop and Start.
func (s *TestServer) Restart() { s.t.Helper(); s.Stop(); s.Start() }

// Demote is Demote of the server.
func (s *TestServer) Demote() { s.t.Helper(); s.must(s.server.Demote()) }

// Promote is Promote of the server.
func (s *TestServer) Promote() { s.t.Helper(); s.must(s.server.Promote()) }

// Log is Log of the server.
func (s *TestServer) Log() string { return s.server.Log() }

func (s *TestServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// PgBouncer starts a PgBouncer before the server, in transaction mode, and
// returns the URL of the database through it. It ends with the test.
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
