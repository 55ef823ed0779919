package metrics

import (
	"context"
	"maps"
	"net"
	"sync"
)

// open counts the open connections to each address.
type open struct {
	mu    sync.Mutex
	count map[string]int
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns a function that dials like dial, and counts the connections.
func (o *open) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			o.add(address, 1)
			conn = &countedConn{TCPConn: tcp, closed: sync.OnceFunc(func() { o.add(address, -1) })}
		}
		return conn, err
	}
}

func (o *open) add(address string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == nil {
		o.count = map[string]int{}
	}
	if o.count[address] += n; o.count[address] == 0 {
		delete(o.count, address)
	}
}

func (o *open) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.count)
}

// A countedConn is a counted connection. It embeds [net.TCPConn] to keep the methods that make a
// TCP connection fast.
type countedConn struct {
	*net.TCPConn
	closed func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.closed()
	return c.TCPConn.Close()
}
