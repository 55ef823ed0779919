// Package tcp makes TCP connections that detect a dead peer, for example after a power
// failure or when a router has dropped the connection.
package tcp

import (
	"context"
	"net"
	"time"
)

// deadAfter is how long a connection may stay without a due acknowledgement before it is
// considered lost.
const deadAfter = 30 * time.Second

// keepAlive returns a configuration with which a connection that is idle for 15 s is probed three times, 5 s apart.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 6, Count: 3}
}

// Dialer returns a dialer with the given timeout; 0 means none.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive(), Control: control}
}

// Listen listens on a TCP address. A connection is not considered lost because a client is
// slow to read.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{KeepAliveConfig: keepAlive()}).Listen(ctx, "tcp", address)
}
