// Package pgtest gives tests a real PostgreSQL: databases of their own on a server that
// all tests of the process share, or a server of their own; and a PgBouncer before it.
//
// A server that is started here keeps everything in a temporary directory that only its
// owner can enter, listens on a unix socket there and asks for no password. Run by
// root, it belongs to the user postgres or nobody, since PostgreSQL refuses to
// run as root. The server and the directory are gone when the test has ended, or
// for the shared one its process, and when that was killed.
//
// The variable FEEDCTL_TEST_POSTGRES holds the URL of another server, such as
// "postgres://postgres:secret@localhost/postgres", whose user may create
// databases. It is shared in the place of one that is started here. A test that stops its
// server, or needs settings, has one of its own also then.
//
// What is started here are the first initdb and pg_ctl on the PATH, or else those of the
// newest version that Debian has installed.
package pgtest
