// Package porttest gives tests ports that stay free until the test listens on them.
package porttest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

var tries atomic.Int32

// Free returns a free TCP port of a range, another one at each call. The range must be below the ports that the kernel
// gives to programs that name none (32768 by default), and no other package's tests may use it: these run at the same
// time.
func Free(t testing.TB, first, last int) int {
	t.Helper()
	n := last - first + 1
	for range n {
		port := first + int(tries.Add(1)-1)%n
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("none of the ports %d to %d is free", first, last)
	return 0
}
