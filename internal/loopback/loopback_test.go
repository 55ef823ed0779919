package loopback_test

import (
	"net"
	"testing"

	"github.com/feedctl/feedctl/internal/loopback"
)

func TestHost(t *testing.T) {
	host := loopback.Host()
	if ip := net.ParseIP(host); !ip.IsLoopback() {
		t.Errorf("%s is not a loopback address", host)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
