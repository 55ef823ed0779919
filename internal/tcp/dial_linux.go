package tcp

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control sets TCP_USER_TIMEOUT (tcp(7)), which limits how long sent data may remain
// unacknowledged; keep-alive does not limit it, and the default is about 15 minutes.
func control(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	set := func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
	}
	if err := conn.Control(set); err != nil {
		return err
	}
	return err
}
