package plane

import (
	"net"
	"runtime"
	"sync/atomic"
)

// closable is the API server's listener. If the API server has not ended in time, its port is closed under it; it would
// answer that with a panic, so its accepting goroutine ends instead.
type closable struct {
	net.Listener
	closed atomic.Bool
}

func (l *closable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && l.closed.Load() {
		runtime.Goexit()
	}
	return c, err
}

// shut frees the port whether or not the API server has done so.
func (l *closable) shut() {
	l.closed.Store(true)
	_ = l.Close()
}
