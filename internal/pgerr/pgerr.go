// Package pgerr classifies errors of PostgreSQL and of connections to it.
package pgerr

import (
	"errors"
	"io"
	"net"
)

// Passes reports whether an error of the server is transient. The code is its SQLSTATE
// (PostgreSQL documentation, appendix A).
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

// Network reports whether an error is one of the connection.
func Network(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
