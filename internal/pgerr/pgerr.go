// Package pgerr classifies errors of PostgreSQL and of connections to it.
package pgerr

import (
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
)

// Passes reports whether a server error is transient. The code is its SQLSTATE (PostgreSQL documentation, appendix
// A).
func Passes(code string) bool {
	switch code {
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"53300", // too_many_connections
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"57P05", // idle_session_timeout
		"08P01", // protocol_violation: sent by PgBouncer when its server is gone
		"58000": // system_error: the same
		return true
	}
	return false
}

// Network reports whether an error comes from the connection. File errors do not, although the error number in them,
// a [syscall.Errno], also implements [net.Error].
func Network(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it unwraps errors itself
	case nil, *fs.PathError, *os.LinkError, syscall.Errno:
		return false
	case *url.Error: // a net.Error, whatever it wraps
		return Network(e.Err)
	case net.Error:
		return true
	case interface{ Unwrap() error }:
		return Network(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), Network)
	}
	return err == io.EOF || err == io.ErrUnexpectedEOF
}
