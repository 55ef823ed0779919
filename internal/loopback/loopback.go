// Package loopback provides addresses for servers in tests.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"runtime"
)

// Host returns a loopback address. On Linux it is a random one of millions, so that a port
// on it is still free when a server is restarted. Elsewhere it is 127.0.0.1.
func Host() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), 1+rand.N(250), 1+rand.N(250))
}
