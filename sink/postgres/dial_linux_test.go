package postgres_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink/postgres"
)

// A server whose host is gone without a word is given up in half a minute.
func TestVanishedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Start(t), "vanished")
	k := w.open(t, postgres.Options{Table: "t"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := k.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]struct{ level, number, want int }{
		"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
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
