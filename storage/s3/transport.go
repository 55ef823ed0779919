package s3

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/tcp"
)

const (
	connectTimeout = 10 * time.Second
	// idleConns is the maximum number of idle connections.
	idleConns = 128
)

// newTransport returns a transport whose connections fail if they make no progress
// for the given time. There is no limit for a whole request.
func newTransport(stall time.Duration) *http.Transport {
	dialer := tcp.Dialer(connectTimeout)
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watchedConn{Conn: conn, stall: stall}, nil
		},
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: stall,
		// Shorter than stall, after which reading from an idle connection fails.
		IdleConnTimeout:     stall * 3 / 4,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: idleConns,
		DisableCompression:  true,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
	}
}

// A watchedConn fails if there is no progress for a given time. Reads and writes extend each
// other's deadlines, since a read begins when the connection becomes idle, long before the next
// request is written.
type watchedConn struct {
	net.Conn
	stall time.Duration
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *watchedConn) Write(p []byte) (done int, err error) {
	// Write in pieces, so that a slow connection does not time out.
	const piece = 64 << 10
	for {
		if err := c.extend(); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(p[done:min(done+piece, len(p))])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

func (c *watchedConn) extend() error { return c.SetDeadline(time.Now().Add(c.stall)) }
