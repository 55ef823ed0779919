package tcp_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/tcp"
)

// TestJoined: the header and the body of a response are one packet if the handler joins their writes.
// Otherwise they are two packets, unless they fit into the buffer of the server.
func TestJoined(t *testing.T) {
	listener, err := tcp.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan uint32, 1)
	server := &http.Server{ConnContext: tcp.WithJoined, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Query().Get("size"))
		conn := tcp.JoinedFrom(r.Context())
		if err != nil || conn == nil {
			t.Errorf("size: %v, connection %v", err, conn)
			return
		}
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		before := packets(t, conn)
		if r.URL.Path == "/joined" {
			conn.Begin()
		}
		_, err = w.Write(bytes.Repeat([]byte("x"), size))
		if flushErr := http.NewResponseController(w).Flush(); err == nil {
			err = flushErr
		}
		if r.URL.Path == "/joined" && err == nil {
			err = conn.End()
		}
		if err != nil {
			t.Error(err)
		}
		sent <- packets(t, conn) - before
	})}
	go func() { _ = server.Serve(tcp.Join(listener)) }()
	defer server.Close()
	url := "http://" + listener.Addr().String()
	header := len("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nContent-Type: text/plain\r\n\r\n")
	for path, sizes := range map[string]map[int]uint32{
		"/joined":   {0: 1, 100: 1, 4096 - header: 1, 4096 - header + 1: 1, 4096: 1, 8192 - header: 1, 8192 - header + 1: 1, 20_000: 1},
		"/separate": {100: 1, 4096 - header: 1, 4096 - header + 1: 2, 20_000: 2},
	} {
		for size, want := range sizes {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path+"?size="+strconv.Itoa(size), nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || string(body) != strings.Repeat("x", size) {
				t.Errorf("%s has %d bytes, want %d: %v", path, len(body), size, err)
			}
			if got := <-sent; got != want {
				t.Errorf("%s with %d bytes was sent in %d packets, want %d", path, size, got, want)
			}
		}
	}
}

// packets returns how many packets with data a connection has sent.
func packets(t *testing.T, c *tcp.Joined) (n uint32) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				n = info.Data_segs_out
			}
		})
		if err == nil {
			err = controlErr
		}
	}
	if err != nil {
		t.Error(err)
	}
	return n
}
