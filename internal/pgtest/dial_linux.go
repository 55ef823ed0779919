package pgtest

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// NoticesVanishedServer checks that the kernel closes a connection made by dial half a
// minute after the server's host has vanished.
func NoticesVanishedServer(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]struct{ level, number, want int }{
		"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
	} {
		if err := raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), option.level, option.number); got != option.want || err != nil {
				t.Errorf("%s is %d, want %d, error %v", name, got, option.want, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
