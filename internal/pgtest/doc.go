// Package pgtest provides real PostgreSQL servers for tests: a database on a server shared
// by all tests of the process, or a separate server, and PgBouncer in front of it.
//
// A server started by this package keeps its files in a temporary directory that only its
// owner can enter, listens on a Unix socket there and requires no password. If the process
// runs as root, the server runs as the user postgres or nobody, since PostgreSQL refuses
// to run as root. The server stops and the directory is removed when the test ends, or,
// for the shared server, when the process ends, even if it is killed.
//
// The variable FEEDCTL_TEST_POSTGRES may hold the URL of another server, such as
// "postgres://postgres:secret@localhost/postgres", whose user may create databases. That
// server is then the shared one. A test that stops its server, or needs settings, still
// starts a separate one.
//
// The programs used are the first initdb and pg_ctl on the PATH, or else those of the
// newest version installed by Debian.
package pgtest
