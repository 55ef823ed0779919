// Package pgdial connects to PostgreSQL servers that may vanish.
package pgdial

import (
	"net"
	"time"
)

// deadAfter is how long the network may be silent, when an answer is due, before the
// connection is taken for lost. A machine that loses its power says nothing.
const deadAfter = 30 * time.Second

// Dialer returns one for connections that notice that the other side is gone; a timeout
// of 0 is none.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 6, Count: 3},
		Control:         control,
	}
}
