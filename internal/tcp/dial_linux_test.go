package tcp_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/tcp"
)

func TestDialer(t *testing.T) {
	pgtest.NoticesVanishedServer(t, tcp.Dialer(0).DialContext)
}

// TestKeepAlive: both ends of a connection that is idle for 15 s are probed three times, 5 s
// apart. Only the end that dialed limits how long bytes may go without acknowledgement.
func TestKeepAlive(t *testing.T) {
	listener, err := tcp.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := tcp.Dialer(time.Second).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for name, test := range map[string]struct {
		conn    net.Conn
		timeout int
	}{"dialed": {dialed, 30_000}, "accepted": {accepted, 0}} {
		raw, err := test.conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for option, want := range map[int]int{
			unix.TCP_KEEPIDLE: 15, unix.TCP_KEEPINTVL: 5, unix.TCP_KEEPCNT: 3, unix.TCP_USER_TIMEOUT: test.timeout,
		} {
			got, optionErr := 0, error(nil)
			if err := raw.Control(func(fd uintptr) { got, optionErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) }); err != nil || optionErr != nil {
				t.Fatal(err, optionErr)
			}
			if got != want {
				t.Errorf("%s: option %d is %d, want %d", name, option, got, want)
			}
		}
	}
}
