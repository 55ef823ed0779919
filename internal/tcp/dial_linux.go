package tcp

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control limits how long bytes that were sent may go without acknowledgement (tcp(7),
// TCP_USER_TIMEOUT), which keep-alive does not: by default about 15 minutes.
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
