package guest

import (
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/nodeless/nodeless/microvm/wire"
)

// connect carries bytes between the host and a port of the pod on the loopback interface, for kubectl port-forward.
func connect(s *wire.Stream, r wire.Connect) error {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)))
	if err != nil {
		var err6 error
		if conn, err6 = net.Dial("tcp", net.JoinHostPort("::1", strconv.Itoa(r.Port))); err6 == nil {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("connect to port %d of the pod: %w", r.Port, err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		defer func() { _ = conn.(*net.TCPConn).CloseWrite() }()
		for {
			it, err := s.Receive()
			if err != nil {
				_ = conn.Close()
				return
			}
			if it.End {
				return
			}
			if _, err := conn.Write(it.Data); err != nil {
				return
			}
		}
	}()
	_, err = io.Copy(s.Writer(wire.Stdout), conn)
	return err
}
