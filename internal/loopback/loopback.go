// Package loopback gives the servers of tests addresses of their own.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"runtime"
)

// Host returns an IP address of this machine that no other host reaches. On Linux it is
// one of millions at random: a port of it that a server has chosen is still free when
// the server is started again, whatever other programs listen on meanwhile. Elsewhere
// it is 127.0.0.1.
func Host() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), 1+rand.N(250), 1+rand.N(250))
}
