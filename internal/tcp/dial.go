// Package tcp makes connections that notice that the other side is gone. A machine that
// loses its power says nothing, nor does a router that forgets a connection.
package tcp

import (
	"context"
	"net"
	"time"
)

// deadAfter is how long the network may be silent, when an answer is due, before a
// connection is taken for lost.
const deadAfter = 30 * time.Second

// keepAlive has a connection that is idle for 15 s probed three times, 5 s apart.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 6, Count: 3}
}

// Dialer returns one for such connections. A timeout of 0 is none.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive(), Control: control}
}

// Listen listens on a TCP address for such connections. A client may take as long as it
// likes to read what was sent.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{KeepAliveConfig: keepAlive()}).Listen(ctx, "tcp", address)
}
